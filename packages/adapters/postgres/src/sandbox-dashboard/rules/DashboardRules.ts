/** Rules of the domain as SQL. `SandboxDashboardContract` holds the two together. */
import type { AttentionState } from "@slipway/domain/sandbox/rules/AttentionState"
import type { PullState } from "@slipway/domain/source/schema/PullRequest"

const anyPublication = (test: string) => `jsonb_path_exists(s.publications, '$[*] ? (${test})')`

/** As the rule `attentionStateOf` says, of a sandbox `s`. */
export const ATTENTION: Readonly<Record<AttentionState, string>> = (() => {
  const open = anyPublication(`@.state == "open"`)
  const closed = anyPublication(`@.state == "closed"`)
  const asks = "(s.approvals <> '[]' OR s.turn ->> 'awaits' IS NOT NULL)"
  const works = `(coalesce(s.turn ->> 'state', '') IN ('pending', 'running', 'awaiting_approval') OR s.restoring IS NOT NULL
    OR ${anyPublication(`@.actionState == "publishing" || @.actionState == "updating"`)})`
  const failed = "coalesce(s.turn ->> 'state', '') = 'failed'"
  const ready = `(${open} OR coalesce(s.turn ->> 'state', '') = 'succeeded' AND NOT ${closed})`
  const runs = "s.status = 'running'"
  return {
    asking: `${runs} AND ${asks}`,
    working: `${runs} AND NOT ${asks} AND ${works}`,
    failed: `(s.status = 'failed' OR ${runs} AND NOT ${asks} AND NOT ${works} AND ${failed})`,
    ready: `(s.status = 'succeeded' AND ${open} OR ${runs} AND NOT ${asks} AND NOT ${works} AND NOT ${failed} AND ${ready})`,
    idle: `${runs} AND NOT ${asks} AND NOT ${works} AND NOT ${failed} AND NOT ${ready}`,
    starting: "s.status IN ('queued', 'creating')",
    ended: `(s.status IN ('terminating', 'terminated') OR s.status = 'succeeded' AND NOT ${open})`
  }
})()

/** As the rule `pullStateOf` says, of a publication `p`. */
export const PULLS: Readonly<Record<PullState | "any", string>> = (() => {
  const known = "p ->> 'number' IS NOT NULL"
  const is = (name: string, value: string) => `coalesce(p ->> '${name}', '') = '${value}'`
  const going = `${known} AND NOT ${is("merged", "true")} AND NOT ${is("state", "closed")}`
  return {
    any: known,
    merged: `${known} AND ${is("merged", "true")}`,
    closed: `${known} AND NOT ${is("merged", "true")} AND ${is("state", "closed")}`,
    draft: `${going} AND ${is("draft", "true")}`,
    open: `${going} AND NOT ${is("draft", "true")}`
  }
})()

/** States of sandboxes that have not ended. */
export const LIVE: ReadonlyArray<AttentionState> = ["asking", "starting", "working", "idle"]
