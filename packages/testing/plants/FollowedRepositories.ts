import { type Plants, plantsIn } from "./Plant.ts"

const due = "DateTime.isLessThanOrEqualTo(one.dueAt, now) && isFree(one, now)"
const order = "DateTime.Order(a.dueAt, b.dueAt)"

export const plants: Plants = {
  port: "FollowedRepositories",
  subject: "packages/testing/test/source/FollowedRepositories.suites.ts",
  plants: plantsIn("packages/domain/memory/source/FollowedRepositoriesMemory.ts", [
    ["gives what is not due yet", due, "isFree(one, now)"],
    ["gives what another caller holds", due, "DateTime.isLessThanOrEqualTo(one.dueAt, now)"],
    ["never gives what a dead worker held", "claimedUntil === null || DateTime.isLessThanOrEqualTo(claimedUntil, now)",
      "claimedUntil === null"],
    ["gives what is due a moment later", due, due.replace("OrEqualTo", "")],
    ["gives the shortest due first", order, "DateTime.Order(b.dueAt, a.dueAt)"],
    ["gives more than asked for", ".slice(0, limit)", ""],
    ["lets an old fence record", "known?.fence !== fence || known.claimedUntil === null", "known === undefined"],
    ["lets a poll be recorded twice", " || known.claimedUntil === null", ""],
    ["forgets the cursor of a poll", "...end, presentName", "...end, cursor: null, presentName"],
    ["counts no failures", "...end, presentName", "...end, failures: 0, presentName"],
    ["follows from anew when it is followed again", "{ reasons: new Set([...known.reasons, reason]) }",
      "{ reasons: new Set([...known.reasons, reason]), followedAt: now, cursor: null }"],
    ["is due when it is followed again", "{ reasons: new Set([...known.reasons, reason]) }",
      "{ reasons: new Set([...known.reasons, reason]), dueAt: now }"],
    ["forgets other reasons", "new Set([...known.reasons, reason])", "new Set([reason])"],
    ["forgets a repository with its first reason", "if (reasons.size === 0)", "if (reasons.size < 2)"],
    ["never forgets a repository", "if (reasons.size === 0)", "if (reasons.size < 0)"],
    ["tells names apart by case", "const key = repo.toLowerCase()", "const key: string = repo"],
    ["hears of no repository in another case", "presentName === name.toLowerCase()", "presentName === name"],
    ["forgets when it heard", "{ heardAt: at }", "{}"],
    ["does not note a new name that a poll found", "presentName: presentName.toLowerCase(), claimedUntil", "claimedUntil"],
    ["does not note a new name that the host tells of", "{ presentName: to.toLowerCase() }", "{}"],
    ["follows a renamed repository by its new name", "{ presentName: to.toLowerCase() }", "{ presentName: to.toLowerCase(), repo: to }"]
  ])
}
