import { type Plants, plantsIn } from "./Plant.ts"

export const plants: Plants = {
  port: "PullRequestFeedback",
  subject: "packages/testing/test/source/PullRequestFeedback.suites.ts",
  plants: plantsIn("packages/domain/memory/source/PullRequestFeedbackMemory.ts", [
    ["reads closed pull requests", "items: !isOpen ? [] : memory", "items: memory"],
    ["reads checks without being asked for them", "checks: !checks || !isOpen ? null", "checks: !isOpen ? null"],
    ["reads long texts", "body: item.body.slice(0, MAX_FEEDBACK_TEXT).toWellFormed()", "body: item.body"],
    ["cuts characters in two", "body: item.body.slice(0, MAX_FEEDBACK_TEXT).toWellFormed()", "body: item.body.slice(0, MAX_FEEDBACK_TEXT)"],
    ["reads logs that are known", "knownChecks.has(pull.headSha) ? { ...known, failing: [] } : known", "known"],
    ["replies again and again", "if (known < 0) items.push(item)", "if (known < 9) items.push(item)"],
    ["has one reply for all keys", "`comment:reply-${key}`", "\"comment:reply\""],
    ["replies as a person", "isBot: true", "isBot: false"],
    ["writes long replies", "text.slice(0, MAX_REPLY).toWellFormed()", "text"]
  ])
}
