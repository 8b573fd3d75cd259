from .run_file import FILE_NAME as FILE_NAME
from .run_file import RefusedRecordError as RefusedRecordError
from .run_file import Store as Store
from .run_file import StoredRun as StoredRun
from .run_file import column_types as column_types
from .run_file import read_run as read_run
from .run_file import refuse_used_folder as refuse_used_folder
