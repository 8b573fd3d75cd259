from .run_file import (
    FILE_NAME as FILE_NAME,
    RefusedRecordError as RefusedRecordError,
    Store as Store,
    StoredRun as StoredRun,
    column_types as column_types,
    read_run as read_run,
    refuse_used_folder as refuse_used_folder,
)
