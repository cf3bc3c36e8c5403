/** Brings the source host's newest commits to the agent's own git, as `origin/…` (docs/decisions/24). */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { currentRound } from "@slipway/domain/publishing/rules/Publication"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import { continuedBranch, publicationOf, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SyncedBranch } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { isCommitId } from "@slipway/domain/source/schema/Naming"
import type { RepoRef } from "@slipway/domain/source/schema/RepoRef"
import { Effect, Stream } from "effect"
import type { LeasedSandbox } from "../shared/LeasedSandbox.ts"

/**
 * Runs in the box, with the agent's git and its configuration, which may be hostile: only the sandbox would be harmed. Arguments: the
 * folder, the commits without parents, one a line, then names of branches and their commits. The pack comes on standard input.
 */
const SCRIPT = `
set -e
cd "$1"
if [ -n "$2" ]; then
  file=$(git rev-parse --git-path shallow)
  { if [ -e "$file" ]; then cat "$file"; fi; printf '%s\\n' "$2"; } | sort -u > "$file.new"
  mv "$file.new" "$file"
fi
shift 2
git index-pack --stdin --fix-thin > /dev/null
while [ $# -gt 1 ]; do
  git update-ref "refs/remotes/origin/$1" "$2"
  shift 2
done
`

/** Longer than any fetch of a reasonable size takes. */
const WITHIN = "10 minutes"

/** The branch that it publishes to, and the base of its pull request. */
const branchesOf = Effect.fnUntraced(function*(sandbox: Sandbox, { fullName, ref }: RepoRef) {
  const { defaultBranch } = yield* SourceHost.use((host) => host.repository(fullName))
  const isContinued = continuedBranch(sandbox, fullName) !== null
  const base = publicationOf(sandbox, fullName)?.pullRequest?.baseRef ??
    (isContinued || ref === undefined || isCommitId(ref) ? defaultBranch : ref)
  return [...new Set([base, currentRound(sandbox, fullName).headRef])]
})

const MAX_ERROR = 500
const problem = (text: string) => text.slice(0, MAX_ERROR)

const ofOne = Effect.fn("SyncBranches.ofOne")(
  function*(leased: LeasedSandbox, box: Box, repo: RepoRef) {
    const trees = yield* WorkingTrees
    const { sandbox } = yield* leased.view
    const { fullName } = repo
    const remote = yield* SourceHost.use((host) => host.remote(fullName, "read"))
    const branches = yield* branchesOf(sandbox, repo)
    const { pack, shallow, tips } = yield* trees.newest({ sandboxId: leased.id, repo: fullName }, { remote, branches })
    const folder = `${box.workspace}/${trees.folder(fullName, sandbox.repos.map((other) => other.fullName))}`
    const args = ["-c", SCRIPT, "slipway-sync", folder, shallow.join("\n"), ...Array.from(tips).flat()]
    const process = yield* box.spawn({ command: "sh", args, env: {} })
    yield* Effect.forkScoped(Effect.ignore(Stream.runDrain(process.stdout)))
    yield* Stream.runForEach(pack, (bytes) => process.write(bytes))
    yield* process.endInput
    const { code } = yield* process.exited
    if (code !== 0) {
      yield* Effect.logWarning("the agent's git did not take the newest commits", { repo: fullName, stderr: yield* process.stderrTail })
      return { branches: [], error: `The git of ${fullName} in the sandbox did not take them.` }
    }
    const taken: { readonly branches: ReadonlyArray<SyncedBranch>; readonly error: string | null } = {
      branches: Array.from(tips, ([branch, sha]) => ({ repo: fullName, branch, sha })),
      error: tips.size === 0 ? `${fullName} has none of the branches ${branches.join(", ")}.` : null
    }
    return taken
  },
  Effect.scoped,
  (self, _leased, _box, { fullName }) =>
    self.pipe(
      Effect.timeoutOrElse({
        duration: WITHIN,
        orElse: () => Effect.succeed({ branches: [], error: `Getting the commits of ${fullName} took too long.` })
      }),
      Effect.catch((error) => Effect.succeed({ branches: [], error: error.message }))
    )
)

/** Does what is asked for and records it. Safe to run again. A failure is recorded; the effect does not fail with it. */
const carryOut = Effect.fn("SyncBranches.carryOut")(function*(leased: LeasedSandbox, box: Box) {
  const { sandbox: { repos } } = yield* leased.view
  const done = yield* Effect.forEach(repos, (repo) => ofOne(leased, box, repo), { concurrency: 4 })
  const error = done.find((one) => one.error !== null)?.error ?? null
  const data = { branches: done.flatMap(({ branches }) => branches), ...(error === null ? {} : { error: problem(error) }) }
  yield* leased.write([{ _tag: "RecordSync", data }])
})

/** Brings the newest commits whenever that is asked for. */
export const syncing = (leased: LeasedSandbox, box: Box) =>
  leased.until(({ sandbox }) => sandbox.syncing).pipe(Effect.andThen(carryOut(leased, box)), Effect.forever)
