/** Decides whether a sandbox's setup may have its secrets, and whether its folders may fill a cache (docs/decisions/17). */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { SecretStore } from "@slipway/domain/environment/ports/SecretStore"
import { distrust, refsToAsk } from "@slipway/domain/environment/rules/SetupTrust"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { DEFAULT_BRANCH_RULES } from "@slipway/domain/source/schema/BranchRules"
import type { RepoRef } from "@slipway/domain/source/schema/RepoRef"
import { Effect, Option } from "effect"
import { type LeasedSandbox, untilAvailable } from "../shared/LeasedSandbox.ts"

const ofOne = Effect.fnUntraced(function*(leased: LeasedSandbox, { fullName: repo, ref }: RepoRef, isFresh: boolean) {
  // The service itself cloned the default branch.
  if (isFresh && ref === undefined) return null
  const source = Option.getOrUndefined(yield* Effect.serviceOption(SourceHost))
  if (source === undefined) return "There is no source host that could tell where its commit is."
  const trees = yield* WorkingTrees
  const setups = yield* Setups
  const store = Option.getOrUndefined(yield* Effect.serviceOption(SecretStore))
  const { sandbox: { grantId } } = yield* leased.view
  const records = store === undefined ? [] : yield* untilAvailable(store.trustedRefs(grantId, repo))
  const listed = records.map((record) => record.ref)
  const access = Option.getOrUndefined(yield* Effect.serviceOption(AccessStore))
  const rules = access === undefined ? DEFAULT_BRANCH_RULES : yield* untilAvailable(access.allBranchRules)
  const { defaultBranch } = yield* source.repository(repo)
  const refs = refsToAsk({ ref, defaultBranch, listed, rules })
  const { baseSha, on } = yield* trees.findBaseRef({ sandboxId: leased.id, repo }, { remote: yield* source.remote(repo, "read"), refs })
  const isPushedUnmerged = on !== null && on !== defaultBranch && (yield* untilAvailable(setups.wasPushedUnmerged(repo, baseSha)))
  return distrust({ ref, defaultBranch, listed, on, isPushedUnmerged, rules })
})

/**
 * Why the commits that the trees started from are not trusted, a sentence for people; `null`: they are trusted. One untrusted commit
 * counts for all repositories, because they are set up in one box. `isFresh`: no agent has worked in the trees.
 */
export const problemOf = Effect.fn("CommitTrust.problemOf")(
  function*(leased: LeasedSandbox, isFresh: boolean) {
    const { sandbox: { repos } } = yield* leased.view
    const problems = yield* Effect.forEach(repos, (repo) => ofOne(leased, repo, isFresh), { concurrency: 4 })
    const at = problems.findIndex((problem) => problem !== null)
    const problem = problems[at]
    return problem === undefined || problem === null ? null : repos.length === 1 ? problem : `${repos[at]?.fullName}: ${problem}`
  },
  // The trees exist: a boot has just made them, or a worker has just found them.
  Effect.catchTag("FileNotFound", Effect.die)
)
