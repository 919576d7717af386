"""Which variables of its submitter a job gets: all but a few (docs/submitting.md).

A list of what may travel would break whatever `module load` or conda set up, without a word. So a
list says what stays behind: what is DQ's own, what the launcher of another MPI job or a Slurm step
told the process that submits, and what belongs to its shell or terminal. Both ends know the list:
the client does not send these, and the server does not take them from any client.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from dq_client.base.errors import UsageError
from dq_client.base.messages.base import NAME_MAX

# What belongs to DQ and to MPI's process manager; nobody sets it from outside.
RESERVED = ("DQ_", "PMI_", "PMIX_", "HYDRA_", "MPIEXEC_", "HYDI_")
FOR_USERS = frozenset(  # but these
    {
        *("DQ_REPORT_INTERVAL", "DQ_VERIFY_DIR", "DQ_WAIT_FOR_RANKS", "DQ_POSTPONE_POINTS"),
        *("DQ_CARRY", "DQ_CARRY_BYTES", "DQ_CARRY_MS", "DQ_SETUP_BYTES"),
        *("DQ_RECIPE_FROM", "DQ_SPAWN_REFUSED", "DQ_EXECUTOR"),
    }
)
# What a launcher or a batch system tells one process, or one step of a job.
OF_LAUNCHERS = (
    *("PMI2_", "PRTE_", "MPI_LOCAL", "MPIR_CVAR_CH3_PORT", "MPICH_PORT", "MPICH_INTERFACE"),
    *("SLURM_", "SLURMD_", "SRUN_", "PBS_", "FLUX_", "ALPS_", "PALS_", "I_MPI_HYDRA_", "OMPI_"),
    *("SGE_TASK_", "SGE_O_", "PE_HOSTFILE"),
)
TUNING = "OMPI_MCA_"  # what users set for Open MPI themselves, unlike the rest of OMPI_...
OF_OPEN_MPI = ("OMPI_MCA_ess", "OMPI_MCA_orte", "OMPI_MCA_pmix", "OMPI_MCA_shmem_RUNTIME")
OF_THE_SHELL = frozenset({"_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "WINDOWID"})
OF_THE_LOGIN = ("SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY")
# What --clean-env leaves: enough to find programs and to write text as the user reads it.
PLAIN = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TERM", "TMPDIR"})
PLAIN_PREFIX = "LC_"
# Of all variables of a job together: it is kept until the job ends, and given to each of its nodes.
ENVIRONMENT_BYTES_MAX = 256 * 1024
VARIABLES_MAX, VALUE_MAX = 500, 32_000  # as in messages.Env


def is_reserved(name: str) -> bool:
    """Whether nobody may set this variable for a job."""
    return name.startswith(RESERVED) and name not in FOR_USERS


def travels(name: str) -> bool:
    """Whether a variable of its submitter reaches a job without being named."""
    if name in OF_THE_SHELL or is_reserved(name) or name.startswith((*OF_THE_LOGIN, *OF_OPEN_MPI)):
        return False
    return name.startswith(TUNING) or not name.startswith(OF_LAUNCHERS)


def is_secret(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern such as *TOKEN* fits the name, in whatever case."""
    return any(fnmatchcase(name.upper(), pattern.upper()) for pattern in patterns)


def inherited(environ: Mapping[str, str], *, clean: bool = False) -> tuple[dict[str, str], str]:
    """What a client sends of its environment, and the note about what it cannot send.

    UsageError with one line if it is too large for a submission.
    """
    wanted = {
        name: value
        for name, value in environ.items()
        if travels(name) and (not clean or name in PLAIN or name.startswith(PLAIN_PREFIX))
    }
    text = {k: v for k, v in wanted.items() if _is_text(k) and _is_text(v)}
    odd = sorted(ascii(name) for name in wanted.keys() - text.keys())
    check_size(text)
    return text, f"not sent to the job, because not UTF-8: {', '.join(odd)}" if odd else ""


def check_size(env: Mapping[str, str]) -> None:
    """UsageError if a job cannot have so many variables, or such long ones."""
    way_out = "--clean-env leaves nearly all out, --env NAME takes one along"
    for name, value in env.items():
        if len(name) > NAME_MAX or len(value) > VALUE_MAX:
            raise UsageError(
                f"the variable {name[:60]} is too long for a job ({len(name)} + {len(value)}"
                f" characters, at most {NAME_MAX} + {VALUE_MAX}): unset it; {way_out}"
            )
    if len(env) > VARIABLES_MAX:
        raise UsageError(
            f"the environment has {len(env)} variables, a job at most {VARIABLES_MAX}: {way_out}"
        )
    size = size_of(env)
    if size > ENVIRONMENT_BYTES_MAX:
        raise UsageError(
            f"the environment has {size} bytes, a job at most {ENVIRONMENT_BYTES_MAX}: {way_out}"
        )


def size_of(env: Mapping[str, str]) -> int:
    """Bytes of all names and values."""
    return sum(len(name.encode()) + len(value.encode()) + 2 for name, value in env.items())


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:  # bytes that are no UTF-8 have no place in a message
        return False
    return True
