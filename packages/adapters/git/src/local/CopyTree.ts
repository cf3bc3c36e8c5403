/**
 * Copies of files of a tree whose owner may swap any folder for a link meanwhile: what is copied was read through descriptors of the
 * folders above it, so it lies in the tree. Paths are as git names them.
 */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { isCommitId, isRefName } from "@slipway/domain/source/schema/Naming"
import * as DescriptorWalk from "@slipway/machine/node/DescriptorWalk"
import { Effect } from "effect"
import { closeSync, mkdirSync, readSync, symlinkSync, writeFileSync } from "node:fs"
import { open } from "node:fs/promises"
import * as SafeTree from "../tree/SafeTree.ts"
import { type Change, type CopyLimits, CopyTooLarge } from "../tree/TreePlace.ts"

/** Bytes of a file that a stand-in is made for: git takes a larger one for no text. */
const LARGE_BYTES = 16_777_216
/** The most bytes of the files of a nested repository that say where it is. */
const HEAD_BYTES = 400
const PACKED_BYTES = 65_536

const join = (folder: Buffer | string, path: Buffer): Buffer => Buffer.concat([Buffer.from(folder), Buffer.from("/"), path])

/** The first bytes of the file; `undefined`: there is no such file in the tree. */
const readStart = (root: string, path: string, maximumBytes: number): string | undefined => {
  const opened = DescriptorWalk.openFile(root, Buffer.from(path, "latin1"))
  if (typeof opened === "string") return undefined
  try {
    const bytes = Buffer.alloc(maximumBytes)
    return bytes.subarray(0, readSync(opened.fd, bytes)).toString("latin1")
  } finally {
    closeSync(opened.fd)
  }
}

/** The folder of a repository that lies at `path`: in it, or elsewhere in the tree, as `.git/modules` of the repository around it. */
const gitDirOf = (root: string, path: string): string => {
  const file = readStart(root, `${path}/.git`, HEAD_BYTES) ?? ""
  const said = /^gitdir: (?<to>[^\n]+)\n?$/u.exec(file)?.groups?.["to"]
  if (said === undefined) return `${path}/.git`
  const names = path.split("/")
  for (const name of said.split("/")) {
    if (name === "..") names.pop()
    else if (name !== "." && name !== "") names.push(name)
  }
  return names.join("/")
}

/** The commit that another repository in the tree is at; `undefined`: its files do not say. */
const commitOf = (root: string, path: string): string | undefined => {
  const gitDir = gitDirOf(root, path)
  const head = readStart(root, `${gitDir}/HEAD`, HEAD_BYTES)?.trim() ?? ""
  const ref = head.startsWith("ref: ") ? head.slice("ref: ".length) : undefined
  if (ref === undefined) return isCommitId(head) ? head : undefined
  if (!isRefName(ref)) return undefined
  const loose = readStart(root, `${gitDir}/${ref}`, HEAD_BYTES)?.trim()
  const packed = () => readStart(root, `${gitDir}/packed-refs`, PACKED_BYTES)?.split("\n").find((line) => line.endsWith(` ${ref}`))
  const commit = loose ?? packed()?.split(" ")[0]
  return commit !== undefined && isCommitId(commit) ? commit : undefined
}

/** As much of a repository as git needs to see which commit it is at. */
const standIn = (at: Buffer, commit: string): void => {
  for (const name of [".git/objects", ".git/refs"]) mkdirSync(join(at, Buffer.from(name)), { recursive: true })
  writeFileSync(join(at, Buffer.from(".git/HEAD")), `${commit}\n`)
}

const copyBytes = Effect.fnUntraced(function*(fd: number, size: number, to: Buffer, mode: number) {
  const file = yield* Effect.acquireRelease(
    Effect.promise(() => open(to, "wx", mode)),
    (file) => Effect.promise(() => file.close())
  )
  let position = 0
  while (position < size) {
    const chunk = yield* SafeTree.readChunk(fd, position, size)
    if (chunk.length === 0) break
    yield* Effect.promise(() => file.writeFile(chunk))
    position += chunk.length
  }
}, Effect.scoped)

/**
 * Copies what is at these paths of the tree in `folder` of the workspace, which the agent cannot replace. Answers what was copied and
 * what is not there: the rest cannot be read.
 */
export const copy = Effect.fn("CopyTree.copy")(function*(
  workspace: string,
  folder: string,
  changes: ReadonlyArray<Change>,
  place: string,
  { beyond, maximumBytes }: CopyLimits
) {
  const [copied, gone]: [Array<Buffer>, Array<Buffer>] = [[], []]
  let left = maximumBytes

  const copyFile = Effect.fnUntraced(function*(parent: DescriptorWalk.Folder, name: Buffer, to: Buffer) {
    const opened = yield* Effect.acquireRelease(
      Effect.sync(() => DescriptorWalk.openFileIn(parent, name, "any")),
      (opened) => Effect.sync(() => typeof opened === "string" ? undefined : closeSync(opened.fd))
    )
    if (opened === "protected") return "unread"
    // It went, or became a folder, since it was looked at.
    if (typeof opened === "string") return "gone"
    const { mode, size } = opened.stats
    const isBeyond = beyond === "fail" ? size > left : size > Math.min(left, LARGE_BYTES)
    if (isBeyond && beyond === "fail") return yield* new CopyTooLarge()
    const executable = mode & 0o100 ? 0o755 : 0o644
    if (isBeyond) writeFileSync(to, `\0${size}`, { mode: executable })
    else {
      left -= size
      yield* copyBytes(opened.fd, size, to, executable)
    }
    return "copied"
  }, Effect.scoped)

  const copyOne = Effect.fnUntraced(function*({ mayBeRepository, path }: Change) {
    const [above, name] = DescriptorWalk.split(path)
    const parent = yield* Effect.acquireRelease(
      Effect.sync(() => DescriptorWalk.openFolder(workspace, above.length === 0 ? Buffer.from(folder) : join(folder, above))),
      (parent) => Effect.sync(() => typeof parent === "string" ? undefined : closeSync(parent.fd))
    )
    if (typeof parent === "string") return "gone"
    const stats = DescriptorWalk.statEntry(parent, name)
    if (stats === "gone") return "gone"
    if (stats === "unreadable") return "unread"
    const to = join(place, path)
    mkdirSync(DescriptorWalk.split(to)[0], { recursive: true })
    if (stats.isFile()) return yield* copyFile(parent, name, to)
    if (stats.isSymbolicLink()) {
      symlinkSync(DescriptorWalk.readLinkIn(parent, name), to)
      return "copied"
    }
    if (!stats.isDirectory()) return "unread"
    if (!mayBeRepository) return "gone"
    const commit = commitOf(workspace, `${folder}/${path.toString("latin1")}`)
    if (commit === undefined) return "unread"
    standIn(to, commit)
    return "copied"
  }, Effect.scoped)

  for (const change of changes) {
    const outcome = yield* Effect.catchDefect(copyOne(change), (defect) => {
      switch (codeOf(defect)) {
        // The tree changed since it was looked at: a folder is a file by now, or a link a file.
        case "EEXIST":
        case "EINVAL":
        case "EISDIR":
        case "ENOENT":
        case "ENOTDIR":
          return Effect.succeed("gone" as const)
        case "ENAMETOOLONG":
          return Effect.succeed("unread" as const)
        default:
          return Effect.die(defect)
      }
    })
    if (outcome === "copied") copied.push(change.path)
    else if (outcome === "gone") gone.push(change.path)
  }
  return { copied, gone }
})
