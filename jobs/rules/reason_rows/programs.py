"""What a training's own program did: it outlives the others, or it has failed, and of what."""

from jobs.rules.reason_rows.steps import READ_LOG

ROWS: dict[str, tuple[str, str]] = {
    "straggler": (
        "worker-0 has succeeded, but {who} still runs {waited} later.",
        (
            "A TensorFlow worker that waits for one that has ended never ends: give its session "
            "device_filters=['/job:ps', '/job:worker/task:%d' % task_index], or ask for sparse_spec "
            "with tf-ps. Stop the training if no more output is expected."
        ),
    ),
    "exit_code": ("{who} ended with exit code {exit_code}{words}", READ_LOG),
    "missing_module": (
        "{who} ended because a Python module is missing: {detail}",
        "Choose an image that has it, or put it beside your code.",
    ),
    "cuda_out_of_memory": (
        "{who} ended because a GPU ran out of memory: {detail}",
        "Use a smaller batch, or a GPU with more memory.",
    ),
    "cuda_driver": (
        "{who} ended because the image's CUDA and the node's driver do not match: {detail}",
        "Choose an image with another CUDA version; your admin knows the driver's.",
    ),
    "no_gpu_seen": (
        "{who} ended because it found no GPU: {detail}",
        "Request a GPU in the form, or let the program run without one.",
    ),
    "gpu_fault": (
        "{who} ended because of an error on its GPU: {detail}",
        "Run it with CUDA_LAUNCH_BLOCKING=1 to see where; tell your admin if only one node has it.",
    ),
    "shared_memory_short": (
        "{who} ended because shared memory ran out: {detail}",
        "Request more `shm`, or use fewer data loader workers.",
    ),
    "peers_lost": (
        "{who} ended because it lost its peers: {detail}",
        "Check which replica failed first; its log has the cause.",
    ),
    "shared_library": (
        "{who} ended because a system library is missing: {detail}",
        "Choose an image that has it.",
    ),
    "disk_full": (
        "{who} ended because a disk was full: {detail}",
        "Delete what you no longer need, or write to another volume.",
    ),
    "volume_lost": (
        "{who} ended because a volume was no longer there: {detail}",
        "Continue from your last checkpoint; your admin sees on the node's page whether it is mounted again.",
    ),
    "read_only": (
        "{who} ended because it wrote to a read-only path: {detail}",
        "Write to LOG_DIR, DATA_DIR, /workspace or /tmp.",
    ),
    "file_missing": (
        "{who} ended because a file is missing: {detail}",
        "Check the path; your code is in /workspace, your data in /data.",
    ),
    "not_permitted": (
        "{who} ended because it was not permitted to do something: {detail}",
        "Write to LOG_DIR, DATA_DIR, /workspace or /tmp; programs do not run as root.",
    ),
    "host_memory": (
        "{who} ended because it could not allocate memory: {detail}",
        "Request more memory, or use a smaller batch.",
    ),
    "name_unknown": (
        "{who} ended because a host name could not be resolved: {detail}",
        "Check the name; pods may not reach every network.",
    ),
    "address_in_use": (
        "{who} ended because its port was in use: {detail}",
        "Use the port of the ClusterSpec for one server only.",
    ),
    "bad_arguments": (
        "{who} ended because its arguments are invalid: {detail}",
        (
            "Check the command. Flags like --ps_hosts and --task_index are added to it under "
            "“Cluster flags”."
        ),
    ),
    "syntax_error": (
        "{who} ended because its code is not valid Python: {detail}",
        "Correct the code; the image's Python may be older than the code needs.",
    ),
    "script_missing": (
        "{who} ended because it did not find what it was to run: {detail}",
        (
            "Correct the path or the module's name. The program starts in /workspace, where the code "
            "is: files of an uploaded folder are there without the folder's own name, those of an "
            "archive as it has them."
        ),
    ),
    "shell_command_missing": (
        "{who} ended because a command was not found: {detail}",
        (
            "Check its name, and choose an image that has it. sh has no “source” and no “[[”, which bash "
            "has. Shells here read no .bashrc, which “conda activate” and “module” need."
        ),
    ),
    "windows_lines": (
        "{who} ended because a script has Windows line ends: {detail}",
        "Save it with the line ends of Linux (sed -i 's/\\r$//' FILE), and upload it again.",
    ),
    "notebook_as_script": (
        "{who} ended because a notebook was run as a script: {detail}",
        "Run it with jupyter nbconvert --to notebook --execute FILE.",
    ),
    "mpi_slots": (
        "{who} ended because mpirun cannot start so many processes: {detail}",
        "Request more workers, or more of what slots are counted by; or start fewer with -np.",
    ),
    "mpi_option": (
        "{who} ended because mpirun does not take its options: {detail}",
        "Write the options of the image's MPI, of Open MPI 5 with two dashes; mpirun --help lists them.",
    ),
    "command_not_executable": (
        "{who} could not run the command: {detail}",
        (
            "Start it by its interpreter, as bash run.sh or python train.py do, or make the file "
            "executable before you upload it."
        ),
    ),
    "command_not_found": (
        "{who} could not find the command: {detail}",
        "Check the command's first word, and choose an image that has what it needs.",
    ),
    "start_error": ("{who} could not be started: {detail}", "Check the command and the image."),
    "out_of_memory": (
        "{who} used more than its {limit} of memory and was ended.",
        "Request more memory, or use a smaller batch.",
    ),
    "process_out_of_memory": (
        "{who} reached its limit of {limit} of memory, and a process of it was ended; the rest went on.",
        (
            "Request more memory, or hold less at a time. What a notebook's kernel held is gone: it has "
            "started again without its variables."
        ),
    ),
    "signal": ("{who} was ended by signal {number} ({name}){words}", "{hint}"),
    "deadline": (
        "The training reached its deadline of {deadline}.",
        "What it saved is in its log directory; submit again with a later deadline.",
    ),
    "ps_crash_loop": (
        "{who} started {count} times within 10 minutes. Last time: {cause}",
        "Read the end of that parameter server's log.",
    ),
    "peer_unresolved": (
        "{who} did not find the other replicas: {detail}",
        "Submit again; tell your admin if it repeats.",
    ),
    "no_user": (
        "{who} runs as a user without a name: {detail}",
        "Choose an image whose /etc/passwd has this user, or add the line to it.",
    ),
    "no_tensorflow": (
        "{who} cannot serve: {detail}.",
        "Choose an image with TensorFlow.",
    ),
}
