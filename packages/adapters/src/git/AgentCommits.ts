/**
 * Takes over the agent's own commits, of which nothing is trusted: they are looked at beside the repository, by their bytes,
 * and become a part of it only when they are sound. Nothing in the agent's `.git` is read; what is here came from its box.
 */
import { access, mkdir, open, rename } from "node:fs/promises"
import { join } from "node:path"
import { Effect, Schema, Stream } from "effect"
import { isEnvironmentFile } from "@slipway/domain/files/FileRules"
import { isCommitId } from "@slipway/domain/source/RepoRef"
import { EMPTY_BLOB } from "./Changes.ts"
import { fields, type GitFailed, line, terminated } from "./Git.ts"
import { type HostRepository, run, scratch } from "./HostRepository.ts"

/** More than an agent makes. */
const MAXIMUM_COMMITS = 1_000

const TIMEOUT = "1 minute"

const LINE_FEED = 0x0a
/** Of a commit's id and its line feed. */
const HEAD_BYTES = 41

/** Why the commits are not kept. The tree is committed as one instead. */
class Unsound extends Schema.TaggedError<Unsound>()("Unsound", { reason: Schema.String }) {
  override get message() {
    return this.reason
  }
}

const unsound = (reason: string) => new Unsound({ reason })

/** Writes the pack to `file`. Answers the commit it is for, `undefined` when there is none. */
const receive = Effect.fnUntraced(function*(history: Stream.Stream<Uint8Array>, file: string, maximumBytes: number) {
  const output = yield* Effect.acquireRelease(Effect.promise(() => open(file, "wx", 0o600)), (output) => Effect.promise(() => output.close()))
  let head = Buffer.alloc(0)
  let left = maximumBytes
  yield* Stream.runForEach(history, (chunk) =>
    Effect.gen(function*() {
      const missing = Math.min(HEAD_BYTES - head.length, chunk.length)
      head = Buffer.concat([head, chunk.subarray(0, missing)])
      const rest = chunk.subarray(missing)
      left -= rest.length
      if (left < 0) return yield* unsound(`They have more than ${maximumBytes} bytes.`)
      if (rest.length > 0) yield* Effect.promise(() => output.write(rest))
    }))
  if (head.length === 0) return undefined
  const sha = head.subarray(0, -1).toString("latin1")
  if (head.length !== HEAD_BYTES || head[HEAD_BYTES - 1] !== LINE_FEED || !isCommitId(sha)) return yield* unsound("They do not begin with the id of a commit.")
  return sha
}, Effect.scoped)

const REPOSITORY = "160000"
const ABSENT = "000000"

/** Looks at each commit between `repository.baseSha` and `sha`. `run` sees the pack beside the repository's objects. */
const check = Effect.fnUntraced(function*(repository: HostRepository, sha: string, ask: typeof run) {
  const { baseSha } = repository
  const range = [sha, `^${baseSha}`, "--"]
  const commits = Number(line(yield* ask(repository, ["rev-list", "--count", `--max-count=${MAXIMUM_COMMITS + 1}`, ...range])))
  if (commits > MAXIMUM_COMMITS) return yield* unsound(`They are more than ${MAXIMUM_COMMITS}.`)
  yield* ask(repository, ["merge-base", "--is-ancestor", baseSha, sha]).pipe(Effect.mapError(() => unsound("They do not go on from the commit the tree started from.")))
  if (line(yield* ask(repository, ["rev-list", "--max-parents=0", ...range])) !== "") return yield* unsound("They bring in another history.")
  // Everything they need is there.
  yield* ask(repository, ["rev-list", "--objects", "--quiet", ...range])

  // :<old mode> <new mode> <old id> <new id> <status>, then the name; each commit against each of its parents
  const raw = fields(yield* ask(repository, ["log", "--raw", "-m", "-z", "--format=", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none", ...range]))
  const added: Array<Buffer> = []
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const [oldMode = "", newMode = ""] = (raw[i]?.toString("latin1") ?? "").replace(/^\n*:/u, "").split(" ")
    const path = raw[i + 1] ?? Buffer.alloc(0)
    if (newMode === REPOSITORY && oldMode !== REPOSITORY) return yield* unsound("One of them adds another repository.")
    if (oldMode === ABSENT) added.push(path)
  }
  if (added.some((path) => isEnvironmentFile(path.toString()))) return yield* unsound("One of them adds an environment file.")
  if (added.length === 0) return
  // An index of these alone, since only of what is in an index git says that it should not be.
  const env = { GIT_INDEX_FILE: yield* scratch(repository) }
  const entries = added.map((path) => Buffer.concat([Buffer.from(`100644 ${EMPTY_BLOB}\t`), path]))
  yield* ask(repository, ["update-index", "--replace", "-z", "--index-info"], { env, input: terminated(entries) })
  const ignored = yield* ask(repository, ["ls-files", "--cached", "--ignored", "--exclude-standard", "-z"], { env })
  if (ignored.length > 0) return yield* unsound("One of them adds a file that is ignored.")
}, Effect.scoped)

/** The newest of the agent's commits, now in the repository; `undefined` when there are none, or none that are sound. */
export const take = Effect.fn("AgentCommits.take")(function*(repository: HostRepository, history: Stream.Stream<Uint8Array>, maximumBytes: number) {
  const place = yield* scratch(repository)
  const packs = join(place, "pack")
  const [pack, index] = [join(packs, "pack-received.pack"), join(packs, "pack-received.idx")]
  yield* Effect.promise(() => mkdir(packs, { recursive: true }))
  const sha = yield* receive(history, pack, maximumBytes)
  if (sha === undefined || sha === repository.baseSha) return undefined

  const beside: typeof run = (repository, args, options) =>
    run(repository, args, { timeout: TIMEOUT, ...options, env: { GIT_ALTERNATE_OBJECT_DIRECTORIES: place, ...options?.env } })
  yield* run(repository, ["index-pack", "--strict", "-o", index, pack], { timeout: TIMEOUT, config: ["core.bigFileThreshold=16m"] })
  yield* check(repository, sha, beside)

  // A pack without its index is not there yet. Named by its commit: what is received again takes no more room.
  const name = join(repository.gitDir, "objects", "pack", `pack-${sha}`)
  yield* Effect.uninterruptible(Effect.promise(async () => {
    if (await access(`${name}.idx`).then(() => true, () => false)) return
    await mkdir(join(repository.gitDir, "objects", "pack"), { recursive: true })
    await rename(pack, `${name}.pack`)
    await rename(index, `${name}.idx`)
  }))
  return sha
}, (taken, { repo }) =>
  taken.pipe(
    Effect.catchTags({
      Unsound: ({ message }) => Effect.as(Effect.logInfo("the agent's own commits are not kept", { repo, reason: message }), undefined),
      GitFailed: ({ message }: GitFailed) => Effect.as(Effect.logInfo("the agent's own commits are not kept", { repo, reason: message }), undefined)
    }),
    Effect.scoped
  ))
