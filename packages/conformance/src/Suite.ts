/** All rules, and running them. */
import { errorOf } from "./client/ErrorText.ts"
import { Skip } from "./client/Expect.ts"
import * as AccessRules from "./rules/AccessRules.ts"
import * as AutomationRules from "./rules/AutomationRules.ts"
import * as BranchRules from "./rules/BranchRules.ts"
import * as CheckpointRules from "./rules/CheckpointRules.ts"
import * as CommandRules from "./rules/CommandRules.ts"
import * as ConversationRules from "./rules/ConversationRules.ts"
import * as CreationRules from "./rules/CreationRules.ts"
import * as DocumentRules from "./rules/DocumentRules.ts"
import * as EventRules from "./rules/EventRules.ts"
import * as FeedbackRules from "./rules/FeedbackRules.ts"
import * as FeedRules from "./rules/FeedRules.ts"
import * as FileRules from "./rules/FileRules.ts"
import * as InternalRules from "./rules/InternalRules.ts"
import * as LifecycleRules from "./rules/LifecycleRules.ts"
import * as ListRules from "./rules/ListRules.ts"
import * as QuestionRules from "./rules/QuestionRules.ts"
import { areas, type Rule } from "./rules/Rule.ts"
import * as StreamRules from "./rules/StreamRules.ts"
import * as UploadRules from "./rules/UploadRules.ts"
import * as WireRules from "./rules/WireRules.ts"
import type { Verdict } from "./ScoreCard.ts"
import type { Need, World } from "./world/World.ts"

const inOrder = (a: Rule, b: Rule) => areas.indexOf(a.area) - areas.indexOf(b.area)

/** All rules of the contract, in the order in which they run. */
export const rules: ReadonlyArray<Rule> = [
  ...WireRules.rules,
  ...AccessRules.rules,
  ...CreationRules.rules,
  ...ListRules.rules,
  ...LifecycleRules.rules,
  ...CommandRules.rules,
  ...QuestionRules.rules,
  ...EventRules.rules,
  ...StreamRules.rules,
  ...FileRules.rules,
  ...UploadRules.rules,
  ...ConversationRules.rules,
  ...InternalRules.rules,
  ...ConversationRules.messages,
  ...CheckpointRules.rules,
  ...BranchRules.rules,
  ...FeedbackRules.rules,
  ...AutomationRules.rules,
  ...FeedRules.rules,
  ...DocumentRules.rules
].sort(inOrder)

/** Selects only rules that docs/interface.md states. */
export const CONTRACT = "contract"

/** Rules of an area, or the one with that id, or those of the contract; commas separate several. */
export const select = (only: string | null): ReadonlyArray<Rule> => {
  if (only === null) return rules
  const wanted = only.split(",").map((name) => name.trim())
  const states = ({ source }: Rule) => wanted.includes(CONTRACT) && source.startsWith("docs/interface.md")
  return rules.filter((rule) => wanted.includes(rule.area) || wanted.includes(rule.id) || states(rule))
}

const reasons: Readonly<Record<Need, string>> = {
  "other-key": "needs a key of another grant (SLIPWAY_OTHER_API_KEY)",
  "no-scope-key": "needs a key without the scope sandboxes (SLIPWAY_NO_SCOPE_API_KEY)",
  repo: "needs a repository to work in (--repo owner/name)",
  "second-repo": "needs a second repository (--repo twice)",
  slow: "takes long (--slow)"
}

/** How often a rule is checked if the server's rate limit interrupted it. */
const ATTEMPTS = 3

/** Checks one rule and ends what it made. */
export const judge = async (rule: Rule, world: World, attempt = 1): Promise<Verdict> => {
  const { area, id, rule: sentence, source } = rule
  const about = { id, area, rule: sentence, source }
  if (rule.untestable !== null) return { ...about, verdict: "skipped", detail: rule.untestable }
  const lacking = rule.needs.find((need) => world.lacks(need))
  if (lacking !== undefined) return { ...about, verdict: "skipped", detail: reasons[lacking] }
  const { waits } = world.session
  try {
    await rule.check(world)
    return { ...about, verdict: "ok", detail: null }
  } catch (error) {
    if (error instanceof Skip) return { ...about, verdict: "skipped", detail: error.message }
    // A wait for the rate limit separated actions that belong together, so the result says nothing about the server.
    if (world.session.waits > waits && attempt < ATTEMPTS) return await judge(rule, world, attempt + 1)
    return { ...about, verdict: "missed", detail: errorOf(error) }
  } finally {
    // Rules about termination report such errors.
    await world.session.tidy().catch(() => {})
  }
}
