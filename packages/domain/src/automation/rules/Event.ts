/** Which events start runs, and what they say: signed requests, comments and labels. */
import type * as DateTime from "effect/DateTime"
import type { News } from "../../source/ports/SourceHostEvents.ts"
import type { Automation } from "./Automation.ts"
import type { Facts } from "./Prompt.ts"

/** The id and the time of a signed request, as they came. */
interface Sent {
  readonly id: string
  readonly timestamp: string
}

/** How far the clocks of sender and receiver may differ, in seconds (Standard Webhooks). */
export const TOLERANCE = 300

/** Bytes of a webhook's body. */
export const MAX_PAYLOAD = 64 * 1024

/** Whether the request may be checked and counted: an id of 1 to 255 printable characters, and a present time. */
export const isTimely = ({ id, timestamp }: Sent, now: DateTime.Utc): boolean =>
  /^[\x21-\x7e]{1,255}$/u.test(id) && /^\d{1,12}$/u.test(timestamp) &&
  Math.abs(Math.floor(now.epochMilliseconds / 1000) - Number(timestamp)) <= TOLERANCE

/** The facts of a signed request. */
export const factsOfWebhook = ({ id }: Pick<Sent, "id">, payload: unknown, at: DateTime.Utc): Facts => ({
  triggerId: `webhook/${id}`,
  at,
  repo: null,
  values: {},
  payload
})

/** News that automations listen to. */
export type IssueNews = Extract<News, { readonly _tag: "Comment" | "Labelled" }>

/** Whether the text mentions `@slipway` outside of quoted lines. */
export const isMentioned = (body: string): boolean =>
  body.split("\n").some((line) => !line.startsWith(">") && /(?<![\w@/.-])@slipway(?![\w-])/iu.test(line))

/** Whether the news could start a run of any automation. Programs' comments and labels start none, so that two cannot call each other. */
export const mayStart = (news: News): news is IssueNews =>
  (news._tag === "Labelled" || news._tag === "Comment" && isMentioned(news.body)) && !news.author.isBot

/** Whether the automation listens to the news. Repositories and labels are compared in any case of letters. */
export const isFor = ({ settings: { repos, trigger } }: Pick<Automation, "settings">, news: IssueNews): boolean =>
  repos.some(({ fullName }) => fullName.toLowerCase() === news.repo.toLowerCase()) &&
  (news._tag === "Comment"
    ? trigger.type === "mention"
    : trigger.type === "label" && trigger.label.toLowerCase() === news.label.toLowerCase())

/** The facts of the news. */
export const factsOfNews = (news: IssueNews, at: DateTime.Utc): Facts => ({
  triggerId: `${news._tag === "Comment" ? "comment" : "label"}/${news.id}`,
  at,
  repo: news.repo,
  values: {
    repo: news.repo,
    "issue.number": String(news.number),
    "issue.title": news.title,
    "issue.url": news.url,
    ...(news._tag === "Comment"
      ? { "comment.body": news.body, "comment.author": news.author.login, "comment.url": news.url }
      : { "issue.body": news.body, label: news.label })
  },
  payload: null
})
