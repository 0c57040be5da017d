"""Health rules for model training, as config."""
