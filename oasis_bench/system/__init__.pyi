from .arrays import ArrayArchive as ArrayArchive
from .errors import (
    OutputError as OutputError,
    Progress as Progress,
    Text as Text,
    UsageError as UsageError,
    Value as Value,
    how_to_install as how_to_install,
    no_progress as no_progress,
    require_packages as require_packages,
    without_options as without_options,
)
from .files import (
    Folder as Folder,
    cache_home as cache_home,
    open_regular as open_regular,
    refuse_input as refuse_input,
    whole_file as whole_file,
)
from .machine import (
    Machine as Machine,
    PeakMemory as PeakMemory,
    Processes as Processes,
    require_memory as require_memory,
)
from .work import (
    Threads as Threads,
    derive_seed as derive_seed,
    shared as shared,
    slices as slices,
)
