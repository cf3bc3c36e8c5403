/**
 * Contents that a publication brings to the Git LFS server of its repository, before it pushes their pointers. Safe to repeat: contents
 * are named by their bytes, and the server says which of them it lacks.
 */
import { PushFailed, type TreesUnavailable } from "@slipway/domain/files/ports/WorkingTrees"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import { Duration, Effect, type Scope, Stream } from "effect"
import { createHash } from "node:crypto"
import { createReadStream } from "node:fs"
import { open } from "node:fs/promises"
import { type GitFailed, line } from "../Git.ts"
import { type HostRepository, run, scratch } from "../tree/HostRepository.ts"
import { keptAs } from "./AgentFilter.ts"
import { BATCH, batch, type LfsServer, serverOf, type Told, upload } from "./LfsApi.ts"
import { type Plain, broughtIn } from "./LfsFiles.ts"
import { type Destinations, LfsFailed } from "./LfsHttp.ts"
import { format, type LfsObject } from "./LfsPointer.ts"
import { asked } from "./LfsStore.ts"

/** Contents of one publication. */
const MOST = 1_000
/** Time for all contents of one publication. */
const WITHIN = Duration.minutes(5)
/** Uploads of one publication at a time. */
const AT_ONCE = 4

/** A content with a way to read it. */
interface Content extends LfsObject {
  /** Gives all of its bytes to `take`; `null`: only the server may have it. */
  readonly write: ((take: (bytes: Uint8Array) => Promise<void>) => Effect.Effect<void>) | null
}

/** Uploads of a publication. */
export interface Uploaded {
  /** The blobs of pointers by the blobs of the contents in their places. */
  readonly pointers: ReadonlyMap<string, string>
  /** Files whose contents the server does not take: they must not be published. */
  readonly refused: ReadonlyArray<Plain>
  /** Why, as a sentence for people; `null`: it took all. */
  readonly reason: string | null
  /** The server has the contents of all pointers in the agent's own commits. */
  readonly keepsCommits: boolean
}

const blob = (
  repository: Pick<HostRepository, "gitDir">,
  id: string,
  take: (bytes: Uint8Array) => Promise<void>,
  env: Readonly<Record<string, string>> = {}
) => run(repository, ["cat-file", "blob", id], { take, env })

/** The content of a blob, as a pointer names it. */
const objectOf = Effect.fnUntraced(function*(
  repository: Pick<HostRepository, "gitDir">,
  id: string,
  env: Readonly<Record<string, string>>
) {
  const hash = createHash("sha256")
  let size = 0
  yield* blob(repository, id, (bytes) => {
    hash.update(bytes)
    size += bytes.length
    return Promise.resolve()
  }, env)
  const object: LfsObject = { oid: hash.digest("hex"), size }
  return object
})

/** Pointers of these files, by the blobs of their contents. `env`: where the objects are to be. */
export const pointersOf = Effect.fn("UploadContents.pointersOf")(
  function*(repository: Pick<HostRepository, "gitDir">, plain: ReadonlyArray<Plain>, env: Readonly<Record<string, string>> = {}) {
    const objects = new Map<string, LfsObject>()
    const pointers = new Map<string, string>()
    for (const id of new Set(plain.map((file) => file.id))) {
      const object = yield* objectOf(repository, id, env)
      objects.set(id, object)
      pointers.set(id, line(yield* run(repository, ["hash-object", "-w", "--stdin"], { input: format(object), env })))
    }
    return { objects, pointers }
  }
)

/** No plain file of that size is there. */
const UNREAD = {
  FileNotFound: () => Effect.succeed(false),
  FileProtected: () => Effect.succeed(false),
  FileTooLarge: () => Effect.succeed(false),
  IsDirectory: () => Effect.succeed(false)
} as const

/** Copies the content that the agent's git keeps of a pointer, if it is what it is named for. */
const copyKept = (repository: HostRepository, { oid, size }: LfsObject, to: string) =>
  Effect.gen(function*() {
    const { bytes } = yield* repository.tree.openFile(`.git/${keptAs(oid)}`, size)
    const hash = createHash("sha256")
    const copy = yield* Effect.acquireRelease(
      Effect.promise(() => open(to, "wx", 0o600)),
      (file) => Effect.promise(() => file.close())
    )
    yield* Stream.runForEach(bytes, (chunk) => {
      hash.update(chunk)
      return Effect.promise(() => copy.writeFile(chunk))
    })
    return hash.digest("hex") === oid
  }).pipe(Effect.scoped, Effect.catchTags(UNREAD))

/** The contents that the agent's git keeps of pointers in its own commits, as copies of ours: the agent may change its files meanwhile. */
const keptContents = Effect.fnUntraced(function*(repository: HostRepository, objects: ReadonlyArray<LfsObject>, maximumBytes: number) {
  const kept: Array<Content> = []
  let left = maximumBytes
  for (const object of objects) {
    if (object.size > left) continue
    const file = yield* scratch(repository)
    if (!(yield* copyKept(repository, object, file))) continue
    left -= object.size
    kept.push({
      ...object,
      write: (take) =>
        Effect.promise(async () => {
          for await (const chunk of createReadStream(file)) await take(chunk)
        })
    })
  }
  return kept
})

/** Uploads one, if the server lacks it. Answers why it does not take it; `null`: it has it. */
const one = Effect.fnUntraced(function*(server: LfsServer, content: Content, told: Told | undefined) {
  if (told === undefined) return new LfsFailed("The Git LFS server says nothing of it.", false)
  if (told.error !== null) return new LfsFailed(told.error, false)
  const { write: writing } = content
  if (writing === null) return told.actions.upload === undefined ? null : new LfsFailed("The Git LFS server does not have it.", false)
  const services = yield* Effect.context<never>()
  const write = (take: (bytes: Uint8Array) => Promise<void>) => Effect.runPromiseWith(services)(writing(take))
  const outcome = yield* asked((signal) => upload(server, content, told.actions, write, signal))
  return outcome instanceof LfsFailed ? outcome : null
})

/** Why the server does not take contents, by their ids. Fails where it cannot be asked. */
const send = Effect.fnUntraced(function*(repository: Pick<HostRepository, "repo">, server: LfsServer, contents: ReadonlyArray<Content>) {
  const refused = new Map<string, string>()
  const note = (content: Content, failure: LfsFailed | null) =>
    failure === null
      ? Effect.void
      : failure.retryable
      ? Effect.fail(outage(repository, failure.message))
      : Effect.sync(() => void refused.set(content.oid, failure.message))
  for (let at = 0; at < contents.length; at += BATCH) {
    const some = contents.slice(at, at + BATCH)
    const told = yield* asked((signal) => batch(server, "upload", some, signal))
    if (!(told instanceof LfsFailed)) {
      const each = (content: Content) => Effect.flatMap(one(server, content, told.get(content.oid)), (failure) => note(content, failure))
      yield* Effect.forEach(some, each, { concurrency: AT_ONCE, discard: true })
    } else yield* Effect.forEach(contents.slice(at), (content) => note(content, told), { discard: true })
    if (told instanceof LfsFailed) break
  }
  return refused
})

const outage = ({ repo }: Pick<HostRepository, "repo">, reason: string) =>
  new PushFailed({ repo, detail: `Files could not be brought to Git LFS. ${reason}`, retryable: true })

const NO_SERVER = "The repository is a folder of this machine, which has no Git LFS server."

/**
 * Makes pointers of these files of the tree, whose contents are in the repository, and brings their contents to the server; also contents
 * of pointers in the agent's own commits, `range`, that its git keeps. `PushFailed`: the server could not be asked.
 */
export const publish = Effect.fn("UploadContents.publish")(
  function*(
    repository: HostRepository,
    plain: ReadonlyArray<Plain>,
    range: ReadonlyArray<string> | null,
    remote: Remote | undefined,
    { destinations, maximumBytes }: { readonly destinations: Destinations; readonly maximumBytes: number }
  ): Effect.fn.Return<Uploaded, GitFailed | PushFailed | TreesUnavailable, Scope.Scope> {
    const server = remote === undefined ? undefined : serverOf(remote, destinations)
    if (server === undefined) return { pointers: new Map(), refused: plain, reason: NO_SERVER, keepsCommits: plain.length === 0 }
    const { objects, pointers } = yield* pointersOf(repository, plain.slice(0, MOST))
    const contents = new Map<string, Content>()
    for (const [id, object] of objects) {
      contents.set(object.oid, { ...object, write: (take) => Effect.orDie(blob(repository, id, take)) })
    }
    const others = range === null ? [] : yield* broughtIn(repository, range, MOST)
    const unread = others.filter(({ oid }) => !contents.has(oid))
    for (const object of unread) contents.set(object.oid, { ...object, write: null })
    for (const content of yield* keptContents(repository, unread, maximumBytes)) contents.set(content.oid, content)
    const refused = yield* Effect.timeoutOrElse(send(repository, server, [...contents.values()]), {
      duration: WITHIN,
      orElse: () => Effect.fail(outage(repository, `They took more than ${Duration.toMinutes(WITHIN)} minutes.`))
    })
    const isRefused = ({ id }: Plain) => {
      const object = objects.get(id)
      return object === undefined || refused.has(object.oid)
    }
    const left = plain.filter(isRefused)
    for (const { id } of left) pointers.delete(id)
    const reason = [...refused.values()][0] ?? (left.length === 0 ? null : `More than ${MOST} files are not brought to Git LFS at once.`)
    return { pointers, refused: left, reason, keepsCommits: refused.size === 0 && left.length === 0 }
  }
)
