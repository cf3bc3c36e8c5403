import type { MemoryRepositories } from "@slipway/domain/memory/files/MemoryRepositories"
import { MemoryFeedback } from "@slipway/domain/memory/source/PullRequestFeedbackMemory"
import type { HeadChecks } from "@slipway/domain/source/ports/PullRequestFeedback"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { type Fixture, suite } from "@slipway/testing/contracts/source/PullRequestFeedbackContract"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { fixture, layer } from "./Repositories.ts"

const MAX_TAIL = 65_536
let last = 0
/** Later than the one before. */
const instant = () => DateTime.makeUnsafe(last = Math.max(last + 1, Date.now()))

type Given = MemoryFeedback | MemoryRepositories | SourceHost

const discussed: Fixture<Given> = {
  repository: Effect.fnUntraced(function*(files) {
    const { commit, deleteBranch, fullName } = yield* fixture.repository(files)
    const memory = yield* MemoryFeedback
    const host = yield* SourceHost
    const of = (number: number) =>
      Effect.map(Effect.orDie(host.pullRequestDetails(fullName, number)), ({ pullRequest }) => ({
        pullRequest,
        items: memory.items(pullRequest)
      }))
    return {
      fullName,
      commit,
      deleteBranch,
      say: (number, { isBot = false, kind, line = null, login, path = null, text }) =>
        Effect.map(of(number), ({ items, pullRequest }) => {
          const id = memory.nextId()
          const at = instant()
          const url = `${pullRequest.url}#${id}`
          items.push({ id: `${kind}:${id}`, kind, author: { id: login, login, isBot }, body: text, path, line, url, at, updatedAt: at })
          return id
        }),
      edit: (number, said, body) =>
        Effect.map(of(number), ({ items }) => {
          const place = items.findIndex(({ id }) => id.endsWith(`:${said}`))
          items[place] = { ...items[place]!, body, updatedAt: instant() }
        }),
      remove: (number, said) =>
        Effect.map(of(number), ({ items }) => void items.splice(items.findIndex(({ id }) => id.endsWith(`:${said}`)), 1)),
      check: (headSha, checks) =>
        Effect.sync(() => {
          const isDone = checks.every(({ state }) => state !== "running")
          const failed = checks.filter(({ state }) => state === "failed")
          const state: HeadChecks["state"] = !isDone ? "running" : failed.length > 0 ? "failed" : "passed"
          memory.checks.set(headSha, {
            headSha,
            state,
            at: isDone ? instant() : null,
            failing: state !== "failed" ? [] : failed.map(({ annotations = [], log = "", name }) => ({
              name,
              url: "",
              summary: "",
              annotations: annotations.slice(0, 50),
              log: new TextDecoder().decode(new TextEncoder().encode(log).subarray(-MAX_TAIL))
            }))
          })
        })
    }
  })
}

export const suites = () => [suite<Given, never>("memory", layer, discussed)]
