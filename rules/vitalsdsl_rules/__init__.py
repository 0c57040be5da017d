"""Rules that ship with vitalsdsl: one `.vitals` file a pack, its tests beside it."""
