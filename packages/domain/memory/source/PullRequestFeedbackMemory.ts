/** The comments and checks of pull requests in memory, and `PullRequestFeedback` on them. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import {
  type FeedbackItem,
  type HeadChecks,
  MAX_FEEDBACK_TEXT,
  MAX_REPLY,
  type PullRequestFeedback
} from "../../src/source/ports/PullRequestFeedback.ts"
import type { RepoNotAccessible, SourceHostError } from "../../src/source/ports/SourceHost.ts"
import { type CommentWithText, MAX_COMMENT, type PullRequest } from "../../src/source/schema/PullRequest.ts"
import type { RepoName } from "../../src/source/schema/RepoRef.ts"

/** The items and checks of pull requests that people and other programs write. */
export class MemoryFeedback extends Context.Service<MemoryFeedback, {
  /** The items of a pull request, which a test may add, replace and delete. */
  items(pull: PullRequest): Array<FeedbackItem>
  /** By commit. */
  readonly checks: Map<string, HeadChecks>
  /** The next id. */
  nextId(): number
}>()("@slipway/domain/memory/MemoryFeedback") {}

/** Without any item. */
export const make = (): MemoryFeedback["Service"] => {
  const kept = new Map<number, Array<FeedbackItem>>()
  let ids = 0
  return MemoryFeedback.of({
    items: ({ id }) => {
      const items = kept.get(id) ?? []
      kept.set(id, items)
      return items
    },
    checks: new Map(),
    nextId: () => ++ids
  })
}

/** As clients get it. */
export const toComment = ({ at, author, body, id, line, path, updatedAt, url }: FeedbackItem): CommentWithText => ({
  id: Number(id.split(":").at(-1)),
  title: path === null ? "Comment" : `Review comment on ${path}`,
  author: author.login,
  authorAvatarUrl: "",
  createdAt: DateTime.formatIso(at),
  updatedAt: DateTime.formatIso(updatedAt),
  url,
  text: body.slice(0, MAX_COMMENT).toWellFormed(),
  isWhole: body.length <= MAX_COMMENT,
  path,
  line
})

/** The port. `find`: the present pull request. */
export const feedback = (
  memory: MemoryFeedback["Service"],
  find: (repo: RepoName, number: number) => Effect.Effect<PullRequest, RepoNotAccessible | SourceHostError>
): PullRequestFeedback["Service"] => ({
  read: Effect.fn("PullRequestFeedback.read")(function*(repo, number, { checks, knownChecks, since }) {
    const pull = yield* find(repo, number)
    const isOpen = pull.state === "open"
    const known = memory.checks.get(pull.headSha) ?? { headSha: pull.headSha, state: "none" as const, at: null, failing: [] }
    return {
      isOpen,
      url: pull.url,
      headRef: pull.headRef,
      items: !isOpen ? [] : memory.items(pull)
        .filter(({ updatedAt }) => DateTime.isGreaterThanOrEqualTo(updatedAt, since))
        .map((item) => ({ ...item, body: item.body.slice(0, MAX_FEEDBACK_TEXT).toWellFormed() }))
        .sort((a, b) => DateTime.Order(a.at, b.at)),
      checks: !checks || !isOpen ? null : knownChecks.has(pull.headSha) ? { ...known, failing: [] } : known
    }
  }),
  reply: Effect.fn("PullRequestFeedback.reply")(function*(repo, number, key, text) {
    const pull = yield* find(repo, number)
    const items = memory.items(pull)
    const now = yield* DateTime.now
    const id = `comment:reply-${key}`
    const body = text.slice(0, MAX_REPLY).toWellFormed()
    const known = items.findIndex((item) => item.id === id)
    if (known >= 0 && items[known]?.body === body) return items[known].url
    const url = `${pull.url}#reply-${key}`
    const author = { id: "", login: "slipway", isBot: true }
    const before = items[known]
    const item: FeedbackItem = { id, kind: "comment", author, body, path: null, line: null, url, at: before?.at ?? now, updatedAt: now }
    if (known < 0) items.push(item)
    else items[known] = item
    return url
  })
})
