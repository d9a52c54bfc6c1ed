"""What a number or a short word means to both sides: exit codes, reason codes, limits of what is kept."""

# --- Exit codes of our programs in pods. A program of a person's own ends with any code. ---
EXIT_CONFIGURATION = 64  # runner and gate: they cannot begin; of the runner, or find no peers
# Of fetch, prepare, and what starts JupyterLab or TensorBoard: a termination message says why.
EXIT_PREPARATION = 65
# EX_UNAVAILABLE: no JupyterLab, no TensorBoard, no TensorFlow; no other start of this image would do better.
EXIT_NO_PROGRAM = 69
# The shells' convention.
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
# Those of ours: the reason beside them says what they mean.
OWN_CODES = (
    EXIT_CONFIGURATION,
    EXIT_PREPARATION,
    EXIT_NO_PROGRAM,
    EXIT_NOT_EXECUTABLE,
    EXIT_NOT_FOUND,
)
SIGNAL_BASE = 128  # and the number of the signal that ended the program

# --- What runs in a replica in place of the training's command: "programs" in job.json. ---
MPI_DAEMON = "mpi_daemon"
TF_SERVER = "tf_server"

# --- Reason codes: why a container ended, in termination messages and in reports of ends. ---
CONFIGURATION_BROKEN = "configuration_broken"
# Of fetch and prepare.
SOURCE_UNREACHABLE = "source_unreachable"
SOURCE_OUTSIDE_VOLUME = "source_outside_volume"
SHA256_MISMATCH = "sha256_mismatch"
GIT_DENIED = "git_denied"
GIT_HOST_KEY = "git_host_key"
GIT_REF = "git_ref"
GIT_GONE = "git_gone"
GIT_PATH = "git_path"
NO_GIT = "no_git"
BUNDLE_UNSAFE = "bundle_unsafe"
BUNDLE_BROKEN = "bundle_broken"
BUNDLE_TOO_LARGE = "bundle_too_large"
VOLUME_NOT_WRITABLE = "volume_not_writable"
VOLUME_NOT_READABLE = "volume_not_readable"
VOLUME_FULL = "volume_full"
# Of the runner, for a program that it did not start.
PEER_UNRESOLVED = "peer_unresolved"
NO_USER = "no_user"
NO_TENSORFLOW = "no_tensorflow"
COMMAND_NOT_FOUND = "command_not_found"
COMMAND_NOT_EXECUTABLE = "command_not_executable"
# Of the runner, for a program that has ended.
COMPLETED = "completed"
FAILED = "exit_code"
KILLED = "signal"
STOPPED = "stopped"  # asked to end, whatever its code
# Of the runner, for a program whose last lines tell the cause.
MISSING_MODULE = "missing_module"
CUDA_OUT_OF_MEMORY = "cuda_out_of_memory"
CUDA_DRIVER = "cuda_driver"
NO_GPU_SEEN = "no_gpu_seen"
GPU_FAULT = "gpu_fault"
SHARED_MEMORY_SHORT = "shared_memory_short"
PEERS_LOST = "peers_lost"
SHARED_LIBRARY = "shared_library"
DISK_FULL = "disk_full"
VOLUME_LOST = "volume_lost"
READ_ONLY = "read_only"
FILE_MISSING = "file_missing"
NOT_PERMITTED = "not_permitted"
HOST_MEMORY = "host_memory"
NAME_UNKNOWN = "name_unknown"
ADDRESS_IN_USE = "address_in_use"
BAD_ARGUMENTS = "bad_arguments"
SYNTAX_ERROR = "syntax_error"
SCRIPT_MISSING = "script_missing"
SHELL_COMMAND_MISSING = "shell_command_missing"
WINDOWS_LINES = "windows_lines"
NOTEBOOK_AS_SCRIPT = "notebook_as_script"
MPI_SLOTS = "mpi_slots"
MPI_OPTION = "mpi_option"
# Of rescue.
UPLOADED = "uploaded"
NOT_UPLOADED = "not_uploaded"
LOST = "killed"  # the runner left no word of the end

# Known within a pod only: a file is not any more what was announced.
FILE_CHANGED = "file_changed"

# What the portal tells people in its own words, with the message's sentence as detail.
EXPLAINED = frozenset(
    {
        SOURCE_UNREACHABLE,
        SHA256_MISMATCH,
        GIT_DENIED,
        GIT_HOST_KEY,
        GIT_REF,
        GIT_GONE,
        GIT_PATH,
        NO_GIT,
        BUNDLE_UNSAFE,
        BUNDLE_BROKEN,
        BUNDLE_TOO_LARGE,
        VOLUME_NOT_WRITABLE,
        VOLUME_FULL,
        PEER_UNRESOLVED,
        NO_USER,
        NO_TENSORFLOW,
        COMMAND_NOT_FOUND,
        COMMAND_NOT_EXECUTABLE,
        MISSING_MODULE,
        CUDA_OUT_OF_MEMORY,
        CUDA_DRIVER,
        NO_GPU_SEEN,
        GPU_FAULT,
        SHARED_MEMORY_SHORT,
        PEERS_LOST,
        SHARED_LIBRARY,
        DISK_FULL,
        VOLUME_LOST,
        READ_ONLY,
        FILE_MISSING,
        NOT_PERMITTED,
        HOST_MEMORY,
        NAME_UNKNOWN,
        ADDRESS_IN_USE,
        BAD_ARGUMENTS,
        SYNTAX_ERROR,
        SCRIPT_MISSING,
        SHELL_COMMAND_MISSING,
        WINDOWS_LINES,
        NOTEBOOK_AS_SCRIPT,
        MPI_SLOTS,
        MPI_OPTION,
    }
)

# --- Limits. ---
# Of an archive with code; the command line keeps below them.
MAX_MEMBERS = 10000
MAX_UNPACKED_BYTES = 2 * 1024**3
MAX_MEMBER_NAME_BYTES = 1024
MAX_NAME_PART_BYTES = 255
# Of the files that one training leaves.
MAX_ARTIFACTS = 10000
MAX_ARTIFACT_PATH_CHARS = 500
