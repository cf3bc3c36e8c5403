/** Converts issues, comments and events of Forgejo and Gitea to news. Both webhooks and polling use these ids. */
import { MAX_NEWS_BODY, MAX_NEWS_TITLE, type News, type NewsAuthor, type Said } from "@slipway/domain/source/ports/SourceHostEvents"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Counter } from "@slipway/domain/text/Text"
import { DateTime, Option, Schema } from "effect"
import * as Answers from "./Answers.ts"

const optional = Schema.optionalKey
const Text = optional(Schema.NullOr(Schema.String))

/** An issue, or a pull request as an issue. */
export const Issue = Schema.Struct({
  number: Counter,
  title: Schema.String,
  body: Text,
  html_url: Schema.String,
  user: Answers.Author,
  created_at: Schema.String,
  updated_at: Schema.String,
  /** Only of pull requests. */
  pull_request: optional(Schema.NullOr(Schema.Unknown)),
  repository: optional(Schema.NullOr(Schema.Struct({ id: Counter, full_name: Schema.String })))
})
export type Issue = typeof Issue.Type

/** An entry of an issue's timeline. */
export const Entry = Schema.Struct({
  id: Counter,
  /** `comment`, `review`, `label` or others. */
  type: Schema.String,
  body: Text,
  html_url: Schema.String,
  user: Answers.Author,
  /** The label of a `label`, whose body is `1` if it was added; `null`: it was deleted since. */
  label: optional(Schema.NullOr(Schema.Struct({ name: Schema.String }))),
  review_id: optional(Counter),
  created_at: Schema.String
})
export type Entry = typeof Entry.Type

/** The issue of an entry. */
export type About = Pick<Said, "isPull" | "number" | "title">

/** Does not split characters. */
export const cut = (text: string, maximum: number): string =>
  text.length <= maximum ? text : text.slice(0, /[\ud800-\udbff]$/u.test(text.slice(0, maximum)) ? maximum - 1 : maximum)

export const instantOf = (text: string): DateTime.Utc => Option.getOrElse(DateTime.make(text), () => DateTime.makeUnsafe(0))

export const isPull = ({ pull_request: pull }: Pick<Issue, "pull_request">): boolean => pull != null

export const aboutOf = (issue: Pick<Issue, "number" | "pull_request" | "title">): About => ({
  number: issue.number,
  isPull: isPull(issue),
  title: cut(issue.title, MAX_NEWS_TITLE)
})

export const changed = (repo: RepoName, number: number, branch: string | null = null): News => ({ _tag: "Pull", repo, branch, number })

interface Text {
  readonly id: string
  readonly body: string
  readonly url: string
  readonly author: NewsAuthor
  readonly at: DateTime.Utc
}

const said = (repo: RepoName, { isPull, number, title }: About, { author, at, body, id, url }: Text): News => ({
  _tag: "Comment",
  id,
  repo,
  number,
  isPull,
  title,
  body: cut(body, MAX_NEWS_BODY),
  url,
  author,
  at
})

/**
 * The text of a new issue or pull request. Its own id is another one in the lists of issues and in events of pull requests, so it is named
 * by the repository's id and its number.
 */
export const opened = (repo: RepoName, repositoryId: number, issue: Omit<Issue, "repository">, own: number | null): News =>
  said(repo, aboutOf(issue), {
    id: `issue:${repositoryId}#${issue.number}`,
    body: issue.body ?? "",
    url: issue.html_url,
    author: Answers.authorOf(issue.user, own),
    at: instantOf(issue.created_at)
  })

/** The news of a comment or a review with a text. */
export const written = (repo: RepoName, about: About, entry: Omit<Entry, "review_id" | "type">, own: number | null): News =>
  said(repo, about, {
    id: `comment:${entry.id}`,
    body: entry.body ?? "",
    url: entry.html_url,
    author: Answers.authorOf(entry.user, own),
    at: instantOf(entry.created_at)
  })

/** A label that was added: the entry of the timeline, without the issue's text. */
export interface Added {
  readonly id: number
  readonly label: string
  readonly author: NewsAuthor
  readonly at: string
}

export const addedOf = (entry: Entry, own: number | null): Added | null =>
  entry.type === "label" && entry.body === "1" && entry.label != null
    ? { id: entry.id, label: cut(entry.label.name, MAX_NEWS_TITLE), author: Answers.authorOf(entry.user, own), at: entry.created_at }
    : null

export const labelled = (
  repo: RepoName,
  issue: Pick<Issue, "body" | "html_url" | "number" | "pull_request" | "title">,
  added: Added
): News => ({
  _tag: "Labelled",
  // A label that was taken away and added again is another entry.
  id: `label:${added.id}`,
  repo,
  ...aboutOf(issue),
  body: cut(issue.body ?? "", MAX_NEWS_BODY),
  url: issue.html_url,
  label: added.label,
  author: added.author,
  at: instantOf(added.at)
})

/** Whether the entry is a text by a person or program: a comment, or a review with a text. */
export const isText = ({ body, type }: Pick<Entry, "body" | "type">): boolean =>
  type === "comment" || type === "review" && (body ?? "") !== ""
