/** A search in the names and contents of a working tree. Its bounds keep a page small, and a search short. */
import * as Schema from "effect/Schema"

/** Characters of a searched text. */
export const MAX_SEARCHED_TEXT = 200
/** Bytes of the largest file whose content is searched. */
export const MAX_SEARCHED_FILE = 1_048_576
/** Bytes of all files together whose content is searched. */
export const MAX_SEARCHED_BYTES = 67_108_864
/** Seconds that a search takes. */
export const MAX_SEARCH_SECONDS = 5
/** Files that are found. */
export const MAX_FOUND_FILES = 100
/** Lines that are shown of a found file. */
export const MAX_FOUND_LINES = 10
/** Characters that are shown of a found line. */
export const MAX_FOUND_LINE = 200

/** A text of one line, as it is written. */
export const FileSearch = Schema.Struct({ text: Schema.String, ignoreCase: Schema.Boolean })
export type FileSearch = typeof FileSearch.Type

/** A line that contains the text. */
export const FoundLine = Schema.Struct({
  /** Counted from 1. */
  number: Schema.Int,
  /** The part of it around the text: at most `MAX_FOUND_LINE` characters. */
  text: Schema.String
})
export type FoundLine = typeof FoundLine.Type

/** A file whose path or content contains the text. */
export const FoundFile = Schema.Struct({
  path: Schema.String,
  /** The first `MAX_FOUND_LINES`. */
  lines: Schema.Array(FoundLine),
  /** The number of all lines. */
  lineCount: Schema.Int
})
export type FoundFile = typeof FoundFile.Type

/** The result of a search. */
export const FoundFiles = Schema.Struct({
  /** In byte order of `path`. */
  files: Schema.Array(FoundFile),
  /** Whether all of the tree was searched: `false` after a bound of the search, or if git could not read the tree. */
  isComplete: Schema.Boolean
})
export type FoundFiles = typeof FoundFiles.Type
