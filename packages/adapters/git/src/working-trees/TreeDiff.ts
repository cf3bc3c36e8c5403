/** The differences between two commits of a tree, or between a commit and the tree as it is, as a patch. */
import { type DiffQuery, FileTooLarge, TreesUnavailable, type TreeVersion, UnknownCommit } from "@slipway/domain/files/ports/WorkingTrees"
import { isProtected } from "@slipway/domain/source/rules/FileRules"
import { isCommitId } from "@slipway/domain/source/schema/Naming"
import { Effect, Schedule, type Scope } from "effect"
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { eachField, type GitFailed, line, terminated } from "../Git.ts"
import { explained } from "../GitFailure.ts"
import { inPieces } from "../InPieces.ts"
import * as FillPointers from "../lfs/FillPointers.ts"
import * as LfsFiles from "../lfs/LfsFiles.ts"
import * as UploadContents from "../lfs/UploadContents.ts"
import { known } from "../publish/KnownObjects.ts"
import * as Saving from "../save/Saving.ts"
import { MAXIMUM_BYTES as MAXIMUM_NAMES } from "../tree/BoxAnswers.ts"
import type { BoxGit } from "../tree/BoxGit.ts"
import { PATIENCE } from "../tree/BoxScript.ts"
import { type HostRepository, run, scratch } from "../tree/HostRepository.ts"

/** The most bytes of git's list of changes, about 200 for each. */
const MAXIMUM_NAMES_BYTES = 33_554_432
const TIMEOUT = "30 seconds"

const ABSENT = "000000"

const OPTIONS = ["-r", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none", "--no-color"]

type Environment = Readonly<Record<string, string>>

interface Hidden {
  readonly path: Buffer
  readonly oldMode: string
  readonly newMode: string
}

/** As git writes a name: in quotes when it would not be clear where it ends. */
const quoted = (path: Buffer): string => {
  const name = path.toString("latin1")
  if (/^[\x20-\x7e]*$/u.test(name) && !/["\\]/u.test(name)) return name
  const escaped = name.replace(
    /[^\x20-\x7e]|["\\]/gu,
    (character) => character === "\"" || character === "\\" ? `\\${character}` : `\\${character.charCodeAt(0).toString(8).padStart(3, "0")}`
  )
  return `"${escaped}"`
}

/** That a protected file differs: a comment, which `git apply` passes over. */
const note = ({ newMode, oldMode, path }: Hidden): string =>
  `# Protected file ${oldMode === ABSENT ? "added" : newMode === ABSENT ? "deleted" : "modified"}: ${quoted(path)}\n`

const explain = ({ reason }: GitFailed) =>
  reason === "timeout"
    ? {
      detail:
        `Git took too long to compare the trees: it has ${PATIENCE.snapshot} seconds to look at the files, and ${TIMEOUT} to compare.`,
      retryable: true
    }
    : reason === "lost"
    ? { detail: "Git was stopped while it compared the trees: the sandbox's box went away. Try again.", retryable: true }
    : reason === "output"
    ? { detail: `Git has more to say of the changes than the limit of ${MAXIMUM_NAMES / 2 ** 20} MiB of names.`, retryable: false }
    : { detail: "Git could not compare the trees.", retryable: false }

/**
 * The tree with pointers in place of changed files of Git LFS, which are compared by their pointers, as git-lfs does. `seen`: where its
 * objects are. `making`: the same, with a place for new ones.
 */
const pointing = Effect.fnUntraced(
  function*(repository: HostRepository, tree: string, seen: Environment, making: Environment) {
    if (!(yield* Effect.promise(() => FillPointers.isUsed(repository.gitDir)))) return tree
    const ask: typeof run = (asked, args, options) => run(asked, args, { ...options, env: { ...seen, ...options?.env } })
    if (!(yield* LfsFiles.isUsed(repository, tree, ask))) return tree
    const plain = yield* LfsFiles.plainIn(repository, tree, ask)
    if (plain.length === 0) return tree
    const { pointers } = yield* UploadContents.pointersOf(repository, plain, making)
    return yield* LfsFiles.withPointers(repository, tree, plain, pointers, making)
  }
)

export const diff = Effect.fn("TreeDiff.diff")(
  function*(
    repository: HostRepository,
    box: BoxGit,
    { from, isWhole = false, maximumBytes, path, to }: DiffQuery,
    maximumTreeBytes: number,
    /** The folder with a commit that is beside the repository, there until the scope closes. */
    learned: (commit: string) => Effect.Effect<string | undefined, never, Scope.Scope>
  ) {
    /** Folders with objects that the repository has not. */
    const beside: Array<string> = []
    const seen = (...more: ReadonlyArray<string>) => ({ GIT_ALTERNATE_OBJECT_DIRECTORIES: [...more, ...beside].join(":") })

    const treeAt = Effect.fnUntraced(function*(version: string) {
      const commit = version === "base" ? repository.baseSha : version.toLowerCase()
      if (!isCommitId(commit)) return undefined
      const objects = yield* learned(commit)
      if (objects !== undefined) beside.push(objects)
      const said = line(
        yield* run(repository, ["cat-file", "--batch-check=%(objecttype) %(objectname)"], {
          input: `${commit}\n${commit}^{tree}\n`,
          env: seen()
        })
      )
      const [kind = "", tree = ""] = said.split("\n")
      return kind.startsWith("commit ") && tree.startsWith("tree ") ? tree.slice("tree ".length) : undefined
    })
    const committed = new Map<TreeVersion, string>()
    const unknown: Array<string> = []
    for (const version of new Set([from, to])) {
      if (version === "working") continue
      const tree = yield* treeAt(version)
      if (tree === undefined) unknown.push(version)
      else committed.set(version, tree)
    }
    if (unknown.length > 0) return yield* new UnknownCommit({ commits: unknown })

    const working = from === "working" || to === "working"
      ? yield* Saving.currentTree(repository, box, known(repository), maximumTreeBytes)
      : undefined
    if (working !== undefined) {
      yield* working.left
      beside.push(working.received.objects)
    }
    const paths = path === undefined || path === "" ? [] : [path]

    // Trees without some of their files are made beside the repository, and are gone with the scope.
    const place = yield* scratch(repository)
    const made = join(place, "objects")
    yield* Effect.promise(() => mkdir(made, { recursive: true }))
    const making = () => ({ GIT_OBJECT_DIRECTORY: made, ...seen(join(repository.gitDir, "objects")) })
    const treeOf = (version: TreeVersion) => pointing(repository, committed.get(version) ?? working?.tree ?? "", seen(), making())
    const trees = [yield* treeOf(from), yield* treeOf(to)] as const
    beside.push(made)

    const hidden: Array<Hidden> = []
    const raw = eachField(
      yield* run(repository, ["diff-tree", ...OPTIONS, "-z", "--raw", "--no-renames", "--no-abbrev", ...trees, "--", ...paths], {
        env: seen(),
        maximumBytes: MAXIMUM_NAMES_BYTES,
        timeout: TIMEOUT,
        isLimited: true
      })
    )
    yield* inPieces(raw, (head) => {
      const [oldMode = "", newMode = ""] = head.toString("latin1").slice(1).split(" ")
      const name = raw.next().value ?? Buffer.alloc(0)
      if (isProtected(name.toString())) hidden.push({ path: name, oldMode, newMode })
    })
    const without = Effect.fnUntraced(function*(tree: string, left: ReadonlyArray<Buffer>) {
      if (left.length === 0) return tree
      const env = { GIT_INDEX_FILE: join(place, "index"), ...making() }
      yield* run(repository, ["read-tree", tree], { env })
      yield* run(repository, ["update-index", "--force-remove", "-z", "--stdin"], { env, input: terminated(left) })
      return line(yield* run(repository, ["write-tree", "--missing-ok"], { env }))
    })
    // A file that was renamed to or from a protected name would show what is in it.
    const [before, after] = [
      yield* without(trees[0], hidden.filter(({ oldMode }) => oldMode !== ABSENT).map((file) => file.path)),
      yield* without(trees[1], hidden.filter(({ newMode }) => newMode !== ABSENT).map((file) => file.path))
    ]
    const patch = yield* run(
      repository,
      ["diff-tree", ...OPTIONS, "--patch", ...isWhole ? ["--binary"] : [], "--find-renames", "-l500", "--full-index", before, after, "--",
        ...paths],
      {
        env: seen(),
        config: ["diff.noprefix=false", "diff.mnemonicPrefix=false", "diff.algorithm=myers", "diff.context=3"],
        maximumBytes,
        timeout: TIMEOUT,
        isLimited: true
      }
    )
    const notes = Buffer.from(hidden.map(note).join(""))
    if (patch.length + notes.length > maximumBytes) return yield* new FileTooLarge({ maximumBytes })
    const all: Uint8Array = Buffer.concat([patch, notes])
    return all
  },
  (self, { repo }, _box, { maximumBytes }) =>
    self.pipe(
      // A box that was being ended as it was asked, such as by a restore: the next one answers.
      Effect.retry({
        while: (failure) => failure._tag === "GitFailed" && failure.reason === "lost",
        times: 2,
        schedule: Schedule.spaced("500 millis")
      }),
      Effect.catchTags({
        Unsound: ({ reason }) => new TreesUnavailable({ detail: reason, retryable: false }),
        GitFailed: (failure) =>
          failure.reason === "output" && failure.command === "diff-tree"
            ? Effect.fail(new FileTooLarge({ maximumBytes }))
            : explained("compare trees", repo, (failure) => new TreesUnavailable(explain(failure)))(failure)
      }),
      Effect.scoped
    )
)
