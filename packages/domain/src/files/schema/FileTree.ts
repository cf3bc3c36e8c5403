/** Listings of a working tree (docs/interface.md 2.6). */
import * as Schema from "effect/Schema"
import { Counter } from "../../text/Text.ts"

/**
 * The change since the commit that the sandbox started from; `null`: unchanged, or ignored by git. New files are `untracked` until they
 * are published, then `added`. A directory has a status if it is entirely new (`untracked` if any file below is), or `deleted`. Renames
 * are found by content; the old name is not listed as deleted.
 */
export const FileStatus = Schema.Literals(["added", "deleted", "modified", "renamed", "untracked"])
export type FileStatus = typeof FileStatus.Type

/** One row of a listing (docs/interface.md 2.6). Times are milliseconds since 1970, sizes bytes. */
export const FileEntry = Schema.Struct({
  name: Schema.String.annotateKey({ description: "Its name in the directory." }),
  path: Schema.String.annotateKey({ description: "Relative to the repository, `/` between segments." }),
  depth: Counter.annotateKey({ description: "Number of slashes in `path`." }),
  kind: Schema.Literals(["file", "directory", "symlink", "submodule"]).annotateKey({
    description: "`submodule`: another repository, either recorded in the commit or only in the tree (then it is never published)."
  }),
  status: Schema.NullOr(FileStatus).annotateKey({
    description: "Against the commit the sandbox started from; `null`: unchanged, or ignored by git. " +
      "New files are `untracked` until they were published."
  }),
  additions: Counter.annotateKey({ description: "Lines; 0 when unchanged, binary or a directory." }),
  deletions: Counter.annotateKey({ description: "Lines; 0 when unchanged, binary or a directory." }),
  size: Schema.NullOr(Counter).annotateKey({ description: "Bytes; `null` unless a regular, unprotected file." }),
  mtimeMs: Schema.NullOr(Schema.Finite).annotateKey({
    description: "The time of the last write in milliseconds since 1970; `null` if the file does not exist."
  }),
  previousPath: Schema.NullOr(Schema.String).annotateKey({ description: "The earlier path of a renamed file, otherwise `null`." })
}).annotate({ identifier: "FileEntry" })
export type FileEntry = typeof FileEntry.Type

/** Why a listing is incomplete: too many entries, unreadable entries, or names that are not UTF-8. */
export const PartialWarning = Schema.Literals(["entries_truncated", "unreadable_entries", "invalid_names"])
export type PartialWarning = typeof PartialWarning.Type

/** The listing of one directory (docs/interface.md 2.6). */
export const FileTree = Schema.Struct({
  directory: Schema.String.annotateKey({ description: "Normalised; the root is empty." }),
  entries: Schema.Array(FileEntry).annotateKey({
    description: "Directories first, then byte order of `name`. Deleted files are listed in the directory they were in."
  }),
  partialWarnings: Schema.Array(PartialWarning).annotateKey({ description: "Why the listing is incomplete." }),
  scope: Schema.Literals(["all", "changed"]).annotateKey({ description: "Always `all`; `changed` is reserved." })
}).annotate({ identifier: "FileTree" })
export type FileTree = typeof FileTree.Type

/** Entries that the listing of a directory has at most (docs/decisions/6). */
export const MAX_ENTRIES = 5_000

/** A file that differs from the commit that the sandbox started from, like its entry in a listing. */
export const ChangedFile = Schema.Struct({
  path: FileEntry.fields.path,
  status: FileStatus,
  additions: FileEntry.fields.additions,
  deletions: FileEntry.fields.deletions,
  previousPath: FileEntry.fields.previousPath
})
export type ChangedFile = typeof ChangedFile.Type

/** All changes of one tree, without repositories in it and names that are not UTF-8. Protected files have a name but no line counts. */
export const ChangedFiles = Schema.Struct({
  /** In byte order of `path`. */
  files: Schema.Array(ChangedFile),
  partialWarnings: Schema.Array(PartialWarning)
})
export type ChangedFiles = typeof ChangedFiles.Type

/** Changes that a list has at most. A person would read no more. */
export const MAX_CHANGES = 1_000
