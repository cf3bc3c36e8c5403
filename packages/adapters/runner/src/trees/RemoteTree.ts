/** Reads one tree in a machine, by the runner's walk of descriptors. The machine chooses names, sizes and bytes. */
import {
  FileNotFound,
  FileProtected,
  FileTooLarge,
  IsDirectory,
  NotADirectory,
  TreesUnavailable
} from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Entry, Tree } from "@slipway/git/tree/TreePlace"
import * as FolderNames from "@slipway/machine/node/FolderNames"
import { Effect, Stream } from "effect"
import type { FileRefused } from "../client/RunnerErrors.ts"
import type { EntryKind } from "../wire/DirectoryListing.ts"
import { explain, type MachineShell } from "./MachineShell.ts"

const unreadable = () => new TreesUnavailable({ detail: "The sandbox's machine could not read it.", retryable: false })

const RUNNER_ERRORS = ["RunnerUnreachable", "RunnerRefused", "RunnerViolation"] as const

const fileRefusal = ({ reason }: FileRefused, maximumBytes: number) => {
  switch (reason) {
    case "not_found":
    case "not_a_directory":
      return new FileNotFound()
    case "protected":
      return new FileProtected()
    case "is_directory":
      return new IsDirectory()
    case "too_large":
      return new FileTooLarge({ maximumBytes })
    case "unreadable":
      return unreadable()
  }
}

const folderRefusal = ({ reason }: FileRefused) => {
  switch (reason) {
    case "not_found":
      return new FileNotFound()
    case "not_a_directory":
      return new NotADirectory()
    case "protected":
    case "is_directory":
    case "too_large":
      return new FileProtected()
    case "unreadable":
      return unreadable()
  }
}

const KINDS: Readonly<Record<EntryKind, Entry["kind"]>> = { file: "file", directory: "directory", link: "symlink", other: null }

/** `gitDir`: in the machine. */
export const make = (machine: MachineShell, sandboxId: SandboxId, folder: string, gitDir: string): Tree => ({
  openFile: Effect.fnUntraced(function*(path, maximumBytes) {
    if (path === "") return yield* new IsDirectory()
    const { readFile } = yield* machine.connection(sandboxId)
    const { bytes, size } = yield* readFile(Buffer.from(`${folder}/${path}`), { maximumBytes }).pipe(
      Effect.catchTag("FileRefused", (refused) => Effect.fail(fileRefusal(refused, maximumBytes))),
      Effect.catchTag(RUNNER_ERRORS, (error) => Effect.fail(explain(error)))
    )
    // The client lets no runner send more than the size.
    const exactly = Stream.suspend(() => {
      let left = size
      const end = Effect.suspend(() => left === 0 ? Effect.void : Effect.fail(new FileNotFound()))
      return bytes.pipe(
        Stream.tap((chunk) => Effect.sync(() => void (left -= chunk.length))),
        Stream.mapError(() => new FileNotFound()),
        Stream.concat(Stream.drain(Stream.fromEffect(end)))
      )
    })
    return { size, bytes: exactly }
  }),
  listFolder: Effect.fnUntraced(function*(path, most) {
    const { list } = yield* machine.connection(sandboxId)
    const { entries, isCut } = yield* list(Buffer.from(path === "" ? folder : `${folder}/${path}`), { most }).pipe(
      Effect.catchTag("FileRefused", (refused) => Effect.fail(folderRefusal(refused))),
      Effect.catchTag(RUNNER_ERRORS, (error) => Effect.fail(explain(error)))
    )
    const found = new Map<string, Entry>()
    for (const { kind, mtimeMs, name, size } of entries) {
      const latin1 = Buffer.from(name).toString("latin1")
      // Only a hostile runner sends these names.
      if (latin1.toLowerCase() === ".git" || found.has(latin1)) continue
      found.set(latin1, { latin1, kind: KINDS[kind], size, mtimeMs })
    }
    const order = (entry: Entry): FolderNames.Name => ({ latin1: entry.latin1, isDirectory: entry.kind === "directory" })
    return { entries: Array.from(found.values()).sort((a, b) => FolderNames.byOrder(order(a), order(b))), isCut }
  }, Effect.scoped),
  inBox: { gitDir, isOwn: true }
})
