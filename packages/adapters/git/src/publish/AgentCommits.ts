/**
 * Takes over the agent's own commits, of which nothing is trusted: they are looked at beside the repository, by their bytes,
 * and become a part of it only when they are sound. Nothing in the agent's `.git` is read; what is here came from its box.
 */
import { isEnvironmentFile } from "@slipway/domain/source/rules/FileRules"
import { Effect, Stream } from "effect"
import { eachField, fields, type GitFailed, line } from "../Git.ts"
import { inPieces } from "../InPieces.ts"
import * as LfsFiles from "../lfs/LfsFiles.ts"
import * as MovedGitlinks from "../submodules/MovedGitlinks.ts"
import type { BoxGit } from "../tree/BoxGit.ts"
import { asEmpty } from "../tree/Changes.ts"
import type { HostRepository } from "../tree/HostRepository.ts"
import * as ReceivedPack from "../tree/ReceivedPack.ts"
import { unsound } from "../tree/ReceivedPack.ts"

/** More than an agent makes. */
const MAXIMUM_COMMITS = 1_000

const REPOSITORY = "160000"
const ABSENT = "000000"

/**
 * The purpose of the commits. Commits that are `published` descend from `repository.baseSha` and hold no protected files; commits that are
 * only `saved` must be complete.
 */
export type Purpose = "published" | "saved"

/** That they are not too many, and that everything they need is there. */
const checkWhole = Effect.fnUntraced(
  function*(repository: HostRepository, range: ReadonlyArray<string>, ask: ReceivedPack.ReceivedPack["beside"]) {
    const commits = Number(line(yield* ask(repository, ["rev-list", "--count", `--max-count=${MAXIMUM_COMMITS + 1}`, ...range])))
    if (commits > MAXIMUM_COMMITS) return yield* unsound(`They are more than ${MAXIMUM_COMMITS}.`)
    yield* ask(repository, ["rev-list", "--objects", "--quiet", ...range])
  }
)

/**
 * Looks at each commit between `repository.baseSha` and `sha`, and answers whether they use Git LFS. `ask` sees the pack beside the
 * repository's objects.
 */
const check = Effect.fnUntraced(function*(
  repository: HostRepository,
  box: BoxGit,
  sha: string,
  ask: ReceivedPack.ReceivedPack["beside"],
  sources: MovedGitlinks.Sources | undefined
) {
  const { baseSha } = repository
  const range = [sha, `^${baseSha}`, "--"]
  yield* checkWhole(repository, range, ask)
  yield* ask(repository, ["merge-base", "--is-ancestor", baseSha, sha]).pipe(
    Effect.mapError(() => unsound("They do not go on from the commit the tree started from."))
  )
  if (line(yield* ask(repository, ["rev-list", "--max-parents=0", ...range])) !== "") {
    return yield* unsound("They bring in another history.")
  }

  // :<old mode> <new mode> <old id> <new id> <status>, then the name; each commit against each of its parents
  const parts = eachField(
    yield* ask(repository, ["log", "--raw", "-m", "-z", "--format=", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv",
      "--ignore-submodules=none", ...range])
  )
  const added: Array<Buffer> = []
  const written: Array<{ readonly path: Buffer; readonly id: string }> = []
  const moved = new Map<string, { readonly path: Buffer; readonly to: string }>()
  let found: string | undefined
  yield* inPieces(parts, (head) => {
    const [oldMode = "", newMode = "", , to = ""] = head.toString("latin1").replace(/^\n*:/u, "").split(" ")
    const path = parts.next().value ?? Buffer.alloc(0)
    if (newMode === REPOSITORY && oldMode !== REPOSITORY) found = "another repository"
    else if (oldMode === ABSENT && isEnvironmentFile(path.toString())) found = "an environment file"
    else if (newMode === REPOSITORY) moved.set(`${path.toString("latin1")} ${to}`, { path, to })
    else {
      if (oldMode === ABSENT) added.push(path)
      if (newMode.startsWith("100")) written.push({ path, id: to })
    }
    return found === undefined
  })
  if (found !== undefined) return yield* unsound(`One of them adds ${found}.`)
  if (sources !== undefined && (yield* MovedGitlinks.lost(repository, sha, [...moved.values()], sources, ask)).length > 0) {
    return yield* unsound("One of them moves a submodule to a commit that does not exist where it comes from.")
  }
  // The start counts too: a commit may change the attributes.
  let usesLfs = false
  for (const commit of sources === undefined ? [] : [sha, baseSha]) {
    const hasPlain = yield* LfsFiles.hasPlain(repository, commit, written, ask)
    if (hasPlain === true) return yield* unsound("One of them has the content of a file that Git LFS is to store.")
    usesLfs ||= hasPlain !== null
  }
  if (added.length === 0) return usesLfs
  const ignored = yield* box.ignored(repository, asEmpty(added))
  if (ignored.length > 0) return yield* unsound("One of them adds a file that is ignored.")
  return usesLfs
})

/** Whether the commit was taken over before, with all it needs. */
export const isTaken = ({ gitDir }: HostRepository, sha: string): Effect.Effect<boolean> => ReceivedPack.isKept(gitDir, sha)

/** Subjects of commits that one message names. */
const MAX_SUBJECTS = 20
const MAX_SUBJECT = 200

/** Subjects of the agent's commits, oldest first, for the message of a commit that stands for them. */
const subjectsOf = Effect.fnUntraced(
  function*(repository: HostRepository, sha: string, others: ReadonlyArray<string>, ask: ReceivedPack.ReceivedPack["beside"]) {
    const said = yield* ask(repository, ["log", `--max-count=${MAX_SUBJECTS + 1}`, "--no-merges", "--format=%s%x00", sha,
      ...[repository.baseSha, ...others].map((other) => `^${other}`), "--"])
    const subjects = fields(said).map((subject) => subject.toString().trim().replaceAll(/\s+/gu, " ").slice(0, MAX_SUBJECT))
    const shown = subjects.slice(0, MAX_SUBJECTS).reverse().filter((subject) => subject !== "")
    return subjects.length > MAX_SUBJECTS ? ["…", ...shown] : shown
  }
)

/** The commits of an agent. */
export interface Taken {
  /** The newest of its commits, now in the repository; `undefined`: there is none, or they are not sound. */
  readonly sha: string | undefined
  /** Subjects of all of them, sound or not, that go on from none of the commits that were named. */
  readonly subjects: ReadonlyArray<string>
  /** Whether they, or the commit that the tree started from, give files to Git LFS. */
  readonly usesLfs: boolean
}

/** As {@link take}, with subjects. `since`: commits in the repository whose history is left out of them. */
export const takeTold = Effect.fn("AgentCommits.takeTold")(function*(
  repository: HostRepository,
  box: BoxGit,
  history: Stream.Stream<Uint8Array>,
  maximumBytes: number,
  since: ReadonlyArray<string>,
  sources: MovedGitlinks.Sources
) {
  let subjects: ReadonlyArray<string> = []
  const found = yield* taking(
    repository,
    box,
    history,
    maximumBytes,
    "published",
    (received, id) =>
      Effect.map(subjectsOf(repository, id, since, received.beside), (told) => {
        subjects = told
      }),
    sources
  )
  const taken: Taken = { sha: found?.sha, subjects, usesLfs: found?.usesLfs === true }
  return taken
})

/** The newest of the agent's commits, now in the repository; `undefined` when there are none, or none that are sound. */
export const take = (
  repository: HostRepository,
  box: BoxGit,
  history: Stream.Stream<Uint8Array>,
  maximumBytes: number,
  purpose: Purpose = "published"
) =>
  // Only publications look submodules up.
  Effect.catchTag(taking(repository, box, history, maximumBytes, purpose, () => Effect.void), "PushFailed", Effect.die).pipe(
    Effect.map((found) => found?.sha)
  )

const taking = Effect.fn("AgentCommits.take")(function*(
  repository: HostRepository,
  box: BoxGit,
  history: Stream.Stream<Uint8Array>,
  maximumBytes: number,
  purpose: Purpose,
  attend: (received: ReceivedPack.ReceivedPack, sha: string) => Effect.Effect<void, GitFailed>,
  sources?: MovedGitlinks.Sources
) {
  const received = yield* ReceivedPack.receive(repository, maximumBytes)
  yield* Stream.runForEach(history, received.append)
  const sha = yield* received.id
  if (sha === undefined || sha === repository.baseSha) return undefined
  yield* received.index
  yield* attend(received, sha)
  const usesLfs = purpose === "published" && (yield* check(repository, box, sha, received.beside, sources))
  if (purpose !== "published") yield* checkWhole(repository, [sha, `^${repository.baseSha}`, "--"], received.beside)
  yield* received.keep(sha)
  return { sha, usesLfs }
}, (taken, { repo }) =>
  taken.pipe(
    Effect.catchTag(["Unsound", "GitFailed"], ({ message }) =>
      Effect.as(Effect.logInfo("the agent's own commits are not kept", { repo, reason: message }), undefined)),
    Effect.scoped
  ))
