/** `slipway comments`: what reviewers and checks say about the pull request of a sandbox. */
import type { PullRequestReviews, ReviewComment } from "@slipway/client"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { columns, json, print } from "../terminal/Output.ts"
import * as Server from "./server/Server.ts"

/** A text that has to stay on its line. */
const inLine = (text: string): string => visible(text.replaceAll(/\s+/gu, " "))

const placeOf = ({ line, outdated, path }: ReviewComment): string =>
  path === null ? "" : ` on ${inLine(path)}${line === null ? "" : `:${line}`}${outdated ? " (outdated)" : ""}`

/** Each line stands behind a mark, so that no text looks like output of the command. */
const quoted = (text: string): string => visible(text.replaceAll("\r\n", "\n")).split("\n").map((line) => `  > ${line}`).join("\n")

const commentOf = (comment: ReviewComment): string => {
  const rest = comment.truncated ? `\n  The rest: ${inLine(comment.url)}` : ""
  return `${inLine(comment.author)}${placeOf(comment)}, ${inLine(comment.createdAt)}\n${quoted(comment.text)}${rest}`
}

const checksOf = ({ count, data, label }: PullRequestReviews["checks"]): string => {
  const rows = data.map(({ conclusion, name, status, url }) => [`  ${inLine(name)}`, inLine(conclusion ?? status), inLine(url)])
  const more = count > data.length ? `\n  and ${count - data.length} more` : ""
  return rows.length === 0 ? inLine(label) : `${inLine(label)}\n${columns(rows)}${more}`
}

/** The reply as text for a terminal. */
export const described = ({ checks, commentCount, comments, pullRequest, repository }: PullRequestReviews): string => {
  if (pullRequest === null) return `Nothing of ${repository} is published yet.`
  const title = `${repository} #${pullRequest.number} (${pullRequest.state}): ${inLine(pullRequest.title)}\n${inLine(pullRequest.url)}`
  const older = commentCount > comments.length ? [`${commentCount - comments.length} older comments are on its page.`] : []
  const said = comments.length === 0 ? ["No comments."] : comments.map(commentOf)
  return [title, checksOf(checks), ...older, ...said].join("\n\n")
}

export const comments = Command.make(
  "comments",
  {
    id: Server.id,
    repo: Flag.String("repo").pipe(
      Flag.withDescription("Which of the sandbox's repositories, as owner/name; may be left out when there is one"),
      Flag.optional
    ),
    json,
    url: Server.url
  },
  ({ id: given, json, repo, url }) =>
    Server.interruptible(Effect.gen(function*() {
      const server = yield* Server.connect(url)
      const id = yield* Server.sandboxOf(server, given)
      const query = Option.isSome(repo) ? { repo: repo.value } : {}
      const found = yield* server.call((signal) => server.client.getPullRequestReviews(id, query, { signal }))
      yield* print(json, found, () => described(found))
    }))
).pipe(
  Command.withDescription(`Show the comments on a sandbox's pull request, and its checks.\n\n${Server.exitCodesText}`),
  Command.withShortDescription("Show comments and checks of the pull request"),
  Command.withExamples([
    { command: "slipway comments c_abcdefgh2345", description: "With files and lines" },
    { command: "slipway comments c_abcdefgh2345 --json", description: "For programs" }
  ])
)
