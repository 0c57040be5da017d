"""vitalsdsl's messages to people: Slack, Discord, Teams, e-mail and whatever apprise speaks, and signed webhooks.

The channels are those of vitals.toml; rules name them: `do notify("team")`. `verify` is what the receiver of a webhook
calls. Importing this loads neither apprise nor keyring.
"""

from vitalsdsl_notify.port import Channels, channels
from vitalsdsl_notify.signing import verify

__all__ = ["Channels", "channels", "verify"]
