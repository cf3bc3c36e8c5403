/** News of a project, with the same ids from webhooks and from lists. */
import { MAX_NEWS_BODY, MAX_NEWS_TITLE, type News, type NewsAuthor, type Said } from "@slipway/domain/source/ports/SourceHostEvents"
import type { DateTime } from "effect"
import { isTokenAccount } from "./Answers.ts"
import { cut } from "./Text.ts"

/** An issue or merge request. */
export interface About extends Pick<Said, "isPull" | "number" | "repo" | "title"> {
  /** GitLab's number of the project. */
  readonly project: number
}

/** A new text. */
export interface Text {
  /** GitLab's number of the note, issue or merge request. */
  readonly id: number
  readonly kind: "issue" | "note" | "pull"
  readonly body: string
  readonly url: string
  readonly author: NewsAuthor
  readonly at: DateTime.Utc
}

/** The service's replies end with a mark. */
const OWN_MARK = /<!-- slipway:[\w:./-]* -->$/u

/** `own`: the account of the token; `null`: it is not known. */
export const authorOf = (user: { readonly id: number; readonly username: string }, own: number | null): NewsAuthor => ({
  id: String(user.id),
  login: cut(user.username, 100),
  isBot: user.id === own || isTokenAccount(user.username)
})

const said = ({ isPull, number, repo, title }: About) => ({ repo, number, isPull, title: cut(title, MAX_NEWS_TITLE) })

export const comment = (about: About, { at, author, body, id, kind, url }: Text): News => ({
  _tag: "Comment",
  id: `${kind}:${id}`,
  ...said(about),
  body: cut(body, MAX_NEWS_BODY),
  url,
  author: { ...author, isBot: author.isBot || OWN_MARK.test(body) },
  at
})

/** Milliseconds. */
const MINUTE = 60_000

export const labelled = (
  about: About,
  { at, author, body, label, url }: Pick<Text, "at" | "author" | "body" | "url"> & { readonly label: string }
): News => ({
  _tag: "Labelled",
  // A label that was taken away and added again is news. A webhook and GitLab's list of label events differ by milliseconds.
  id: cut(`${about.project}${about.isPull ? "!" : "#"}${about.number}:${Math.floor(at.epochMilliseconds / MINUTE)}:${label}`, 255),
  ...said(about),
  body: cut(body, MAX_NEWS_BODY),
  url,
  label: cut(label, MAX_NEWS_TITLE),
  author,
  at
})

/** GitLab's states in which a pipeline waits for nothing but a person. */
export const isEnded = (status: string): boolean => ["canceled", "failed", "manual", "skipped", "success"].includes(status)
