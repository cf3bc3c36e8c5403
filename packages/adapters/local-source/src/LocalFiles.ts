/** Files of a repository of this machine: of the commit of HEAD, or of its checkout. */
import { ifAbsent } from "@slipway/domain/files/rules/SystemError"
import { isProtected, normalizePath } from "@slipway/domain/source/rules/FileRules"
import { fields, type GitFailed, terminated } from "@slipway/git/Git"
import { Effect, Result, Schema } from "effect"
import { constants } from "node:fs"
import { lstat, open as openFile } from "node:fs/promises"
import { join } from "node:path"
import * as LocalGit from "./LocalGit.ts"

/** The folder is not a usable repository. The message is for the operator. */
export class UnusableFolder extends Schema.TaggedError<UnusableFolder>()("UnusableFolder", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

/** The content of a path: the text of a plain file, or why it has none. */
export type Content =
  | { readonly _tag: "Text"; readonly text: string }
  | { readonly _tag: "Absent" }
  | { readonly _tag: "NotPlain" }
  | { readonly _tag: "TooLarge" }

interface Files {
  /** `null`: the checkout. */
  readonly commit: string | null
  /** All files that git tracks. Without a commit also untracked files that are not ignored. */
  readonly paths: ReadonlyArray<string>
  read(path: string, maximumBytes: number): Effect.Effect<Content, GitFailed>
}

export interface LocalFiles extends Files {
  /** The ignored ones among the folders; `null`: a bare repository has no ignore rules. */
  ignored(folders: ReadonlyArray<string>): Effect.Effect<ReadonlySet<string> | null, GitFailed>
}

const absent: Content = { _tag: "Absent" }
const notPlain: Content = { _tag: "NotPlain" }

const texts = (output: Buffer): ReadonlyArray<string> => fields(output).map((field) => field.toString())

const ignoredIn = (folder: string, folders: ReadonlyArray<string>) => {
  if (!LocalGit.isCheckout(folder)) return Effect.succeed(null)
  if (folders.length === 0) return Effect.succeed(new Set<string>())
  // A rule may be for folders only, so missing folders need a slash. check-ignore takes no literal paths, but takes a path that begins
  // with a dot as it is.
  const input = terminated(folders.map((path) => Buffer.from(`./${path}/`)))
  return LocalGit.bytes(folder, ["--no-literal-pathspecs", "check-ignore", "--no-index", "-z", "--stdin"], {
    input,
    env: { GIT_WORK_TREE: folder }
  }).pipe(
    // git-check-ignore(1): exit code 1 if none is ignored.
    Effect.catchIf(({ code }) => code === 1, () => Effect.succeed(Buffer.alloc(0))),
    Effect.map((output) => new Set(texts(output).map((path) => path.slice("./".length, -1))))
  )
}

const ofCommit = Effect.fnUntraced(function*(folder: string): Effect.fn.Return<Files, UnusableFolder | GitFailed> {
  const commit = yield* LocalGit.commit(folder, "HEAD")
  if (commit === undefined) return yield* new UnusableFolder({ detail: `${folder} is no git repository, or has no commit yet.` })
  // Mode, type, id, a tab and the path.
  const entries = new Map(
    texts(yield* LocalGit.bytes(folder, ["ls-tree", "-r", "-z", "--full-tree", commit])).map((entry) => {
      const tab = entry.indexOf("\t")
      const [mode = "", , id = ""] = entry.slice(0, tab).split(" ")
      return [entry.slice(tab + 1), { mode, id }]
    })
  )
  const read = Effect.fnUntraced(function*(path: string, maximumBytes: number) {
    const entry = entries.get(path)
    if (entry === undefined) return absent
    if (!entry.mode.startsWith("100")) return notPlain
    return yield* LocalGit.bytes(folder, ["cat-file", "blob", entry.id], { maximumBytes }).pipe(
      Effect.map((content): Content => ({ _tag: "Text", text: content.toString() })),
      Effect.catchIf(({ reason }) => reason === "output", () => Effect.succeed<Content>({ _tag: "TooLarge" }))
    )
  })
  return { commit, paths: Array.from(entries.keys()), read }
})

const readPlain = async (file: string, maximumBytes: number): Promise<Content> => {
  const found = await lstat(file).catch(ifAbsent(undefined))
  if (found === undefined) return absent
  if (!found.isFile()) return notPlain
  const handle = await openFile(file, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(maximumBytes + 1), 0, maximumBytes + 1, 0)
    return bytesRead > maximumBytes ? { _tag: "TooLarge" } : { _tag: "Text", text: buffer.toString("utf8", 0, bytesRead) }
  } finally {
    await handle.close()
  }
}

const asTheyAre = Effect.fnUntraced(function*(folder: string): Effect.fn.Return<Files, UnusableFolder | GitFailed> {
  if (!LocalGit.isCheckout(folder)) return yield* new UnusableFolder({ detail: `${folder} is no checkout of a git repository.` })
  const listed = yield* LocalGit.bytes(folder, ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    env: { GIT_WORK_TREE: folder }
  })
  return {
    commit: null,
    paths: texts(listed),
    read: (path: string, maximumBytes: number) => Effect.promise(() => readPlain(join(folder, path), maximumBytes))
  }
})

/** `folder`: the absolute path of a checkout's top folder, or of a bare repository. */
export const open = (folder: string, which: "commit" | "working"): Effect.Effect<LocalFiles, UnusableFolder | GitFailed> =>
  Effect.map(which === "commit" ? ofCommit(folder) : asTheyAre(folder), (files): LocalFiles => ({
    ...files,
    ignored: (folders) => ignoredIn(folder, folders)
  }))

/** Bytes of a folder's listing. A larger folder has no names here. */
const MAX_LISTING = 2 ** 20

/**
 * The entries of a folder at `ref`, a name that `Ref` accepts (`null`: the default branch), without protected ones. An unknown ref or
 * folder has none.
 */
export const names = Effect.fnUntraced(function*(repository: string, ref: string | null, folder: string) {
  const path = Result.getOrNull(normalizePath(folder))
  if (path === null || isProtected(path)) return []
  const commit = yield* LocalGit.commit(repository, ref ?? (yield* LocalGit.defaultBranch(repository)))
  if (commit === undefined) return []
  const listing = yield* LocalGit.bytes(repository, ["ls-tree", "-z", `${commit}:${path}`], { maximumBytes: MAX_LISTING })
  return texts(listing).flatMap((entry) => {
    const tab = entry.indexOf("\t")
    const name = entry.slice(tab + 1)
    return isProtected(path === "" ? name : `${path}/${name}`) ? [] : [{ name, isFolder: entry.slice(0, tab).split(" ")[1] === "tree" }]
  })
}, Effect.catchTag("GitFailed", () => Effect.succeed([])))
