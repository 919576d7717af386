"""The environment of a job: which variables stay behind, and when the rest is forgotten.

What a job inherits is in its spec, because a restart of the server, or of the job, needs it. It may
hold what nobody else should read, and thousands of ended jobs are remembered, so a job that has
ended has none any more. What never reaches a job by itself is said in the table [environment]:

    [environment]
    secrets = ["*TOKEN*", "*SECRET*"]     # patterns of names; `dq submit --env NAME` names one all
                                          # the same
"""

from __future__ import annotations

from dataclasses import dataclass

from dq_server.core.model.errors import ConfigError
from dq_server.core.model.options import Options

SECRETS = (
    *("*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*CREDENTIAL*"),
    *("*API_KEY*", "*APIKEY*", "*ACCESS_KEY*", "*PRIVATE_KEY*", "AWS_*", "SSH_AUTH_SOCK"),
)


@dataclass(frozen=True, slots=True)
class EnvironmentOptions(Options):
    """secrets  patterns of variables that a job does not inherit, in whatever case"""

    table = "environment"

    secrets: tuple[str, ...] = SECRETS

    def validate(self) -> None:
        if "" in self.secrets:
            raise ConfigError(
                '[environment] secrets: "" fits no variable; give patterns: "*TOKEN*"'
            )
