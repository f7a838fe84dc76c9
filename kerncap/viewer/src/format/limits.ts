// The most that is read of each part of a reproducer: kerncap/format/size_limits.py, number_limits.py and allowed_names.py.

export const MAX_MANIFEST_BYTES = 16 * 2 ** 20;
export const MAX_CHECKS_BYTES = 2 ** 20;
export const MAX_DIGEST_FILE_BYTES = 256;
export const MAX_REGIONS_BYTES = 2 ** 40;
export const MAX_INDEX_BYTES = 256 * 2 ** 20;
export const MAX_CHUNKS_BYTES = MAX_REGIONS_BYTES + 2 ** 32;
export const MAX_FILE_BYTES = 2 ** 32;
export const MAX_FOLDER_ENTRIES = 65_536;
export const MAX_DIRECTORY_BYTES = 8 * 2 ** 20; // of a zip file
export const MAX_PATH_DEPTH = 32;
export const MAX_THREADS = 65_536;
export const MAX_VALUES = 65_536;
export const MAX_VALUE_DEPTH = 32;

// Memory is packed already, and code and text shrink tenfold at best: a zip file that holds more is a bomb.
export const MOST_TIMES_LARGER = 100;
export const ALWAYS_ALLOWED = 64 * 2 ** 20;
