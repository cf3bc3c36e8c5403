/** Converts GitHub's events to news. Webhooks and the list of a repository's events have the same payloads, the list with fewer fields. */
import { MAX_NEWS_BODY, MAX_NEWS_TITLE, type News, type NewsAuthor, type Said } from "@slipway/domain/source/ports/SourceHostEvents"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Counter } from "@slipway/domain/text/Text"
import { DateTime, Option, Schema } from "effect"

const optional = Schema.optionalKey
const Text = optional(Schema.NullOr(Schema.String))

const Account = Schema.Struct({ id: Counter, login: Schema.String, type: optional(Schema.String) })
const Head = Schema.Struct({ ref: Schema.String })
/** For a pull request from a fork, the branch is in another repository. */
const Pull = Schema.Struct({
  number: Counter,
  head: Head,
  id: optional(Counter),
  title: optional(Schema.String),
  body: Text,
  html_url: optional(Schema.String),
  user: optional(Schema.NullOr(Account)),
  created_at: optional(Schema.String),
  updated_at: optional(Schema.String)
})
const Issue = Schema.Struct({
  id: Counter,
  number: Counter,
  title: Schema.String,
  body: Text,
  html_url: Schema.String,
  user: optional(Schema.NullOr(Account)),
  created_at: Schema.String,
  updated_at: Schema.String,
  /** Only of pull requests. */
  pull_request: optional(Schema.Unknown)
})
const Comment = Schema.Struct({
  id: Counter,
  body: Text,
  html_url: Schema.String,
  user: optional(Schema.NullOr(Account)),
  created_at: optional(Schema.NullOr(Schema.String)),
  submitted_at: optional(Schema.NullOr(Schema.String))
})
const Branch = optional(Schema.NullOr(Schema.String))
const Checked = Schema.Struct({
  head_branch: Branch,
  check_suite: optional(Schema.NullOr(Schema.Struct({ head_branch: Branch }))),
  pull_requests: optional(Schema.NullOr(Schema.Array(Schema.NullOr(Schema.Struct({ number: Counter, head: Head })))))
})

const Action = { action: optional(Schema.String), sender: optional(Schema.NullOr(Account)) }
const Payloads = {
  pull_request: Schema.Struct({ ...Action, pull_request: Pull, label: optional(Schema.Struct({ name: Schema.String })) }),
  pull_request_review: Schema.Struct({ ...Action, pull_request: Pull, review: Comment }),
  pull_request_review_comment: Schema.Struct({ ...Action, pull_request: Pull, comment: Comment }),
  issue_comment: Schema.Struct({ ...Action, issue: Issue, comment: Comment }),
  issues: Schema.Struct({ ...Action, issue: Issue, label: optional(Schema.Struct({ name: Schema.String })) }),
  checked: Schema.Struct({
    ...Action,
    check_run: optional(Checked),
    check_suite: optional(Checked),
    workflow_run: optional(Checked)
  }),
  push: Schema.Struct({ ref: Schema.String }),
  repository: Schema.Struct({
    ...Action,
    changes: Schema.Struct({
      repository: optional(Schema.Struct({ name: Schema.Struct({ from: Schema.String }) })),
      owner: optional(Schema.Struct({
        from: Schema.Struct({
          user: optional(Schema.NullOr(Schema.Struct({ login: Schema.String }))),
          organization: optional(Schema.NullOr(Schema.Struct({ login: Schema.String })))
        })
      }))
    })
  })
}

/** An event, from a webhook or a list. */
export interface Event {
  /** As webhooks name it, such as `issue_comment`. */
  readonly name: string
  readonly payload: unknown
  readonly repo: RepoName
  /** When and by whom, where the payload does not say it. */
  readonly at: DateTime.Utc
  readonly actor: NewsAuthor | null
}

/** Does not split characters. */
const cut = (text: string, maximum: number): string =>
  text.length <= maximum ? text : text.slice(0, /[\ud800-\udbff]$/u.test(text.slice(0, maximum)) ? maximum - 1 : maximum)

/** The author of texts whose account was deleted, as GitHub shows it. */
const ghost: NewsAuthor = { id: "10137", login: "ghost", isBot: false }

export const authorOf = (account: typeof Account.Type | null | undefined): NewsAuthor | null =>
  account == null
    ? null
    : { id: String(account.id), login: cut(account.login, 100), isBot: account.type === "Bot" || account.login.endsWith("[bot]") }

const instant = (text: string | null | undefined, otherwise: DateTime.Utc): DateTime.Utc =>
  Option.getOrElse(DateTime.make(text ?? ""), () => otherwise)

type About = Pick<Said, "number" | "title" | "isPull">

const said = (event: Event, about: About, kind: string, text: typeof Comment.Type): News => ({
  _tag: "Comment",
  id: `${kind}:${text.id}`,
  repo: event.repo,
  number: about.number,
  isPull: about.isPull,
  title: cut(about.title, MAX_NEWS_TITLE),
  body: cut(text.body ?? "", MAX_NEWS_BODY),
  url: text.html_url,
  author: authorOf(text.user) ?? event.actor ?? ghost,
  at: instant(text.created_at ?? text.submitted_at, event.at)
})

interface Labelled extends About {
  readonly body: string | null | undefined
  readonly url: string
  readonly label: string
  readonly updatedAt: string | undefined
}

const labelled = (event: Event, { body, isPull, label, number, title, updatedAt, url }: Labelled): News => {
  const at = instant(updatedAt, event.at)
  return {
    _tag: "Labelled",
    // A label that was taken away and added again is news.
    id: cut(`${event.repo.toLowerCase()}#${number}:${at.epochMilliseconds}:${label}`, 255),
    repo: event.repo,
    number,
    isPull,
    title: cut(title, MAX_NEWS_TITLE),
    body: cut(body ?? "", MAX_NEWS_BODY),
    url,
    label: cut(label, MAX_NEWS_TITLE),
    author: event.actor ?? ghost,
    at
  }
}

const changed = ({ repo }: Event, { head, number }: { readonly head: { readonly ref: string }; readonly number: number }): News => ({
  _tag: "Pull",
  repo,
  branch: head.ref,
  number
})

const decoded = <A>(schema: Schema.Codec<A, any>, payload: unknown): A | null =>
  Option.getOrNull(Schema.decodeUnknownOption(schema)(payload))

const ofPull = (event: Event): ReadonlyArray<News> => {
  const payload = decoded(Payloads.pull_request, event.payload)
  if (payload === null) return []
  const { action, label, pull_request: pull } = payload
  const about = { number: pull.number, isPull: true, title: pull.title ?? "" }
  const news = [changed(event, pull)]
  if (action === "labeled" && label !== undefined) {
    const { body, html_url: url = "", updated_at: updatedAt } = pull
    news.push(labelled(event, { ...about, body, url, label: label.name, updatedAt }))
  }
  // The list of events leaves the text out.
  if (action === "opened" && pull.id !== undefined && pull.html_url !== undefined) {
    news.push(said(event, about, "pull", { ...pull, id: pull.id, html_url: pull.html_url }))
  }
  return news
}

const ofReview = (event: Event): ReadonlyArray<News> => {
  const payload = decoded(Payloads.pull_request_review, event.payload)
  if (payload === null) return []
  const { action, pull_request: pull, review } = payload
  const isNew = (action === "submitted" || action === "created") && (review.body ?? "") !== ""
  const about = { number: pull.number, isPull: true, title: pull.title ?? "" }
  return [changed(event, pull), ...isNew ? [said(event, about, "review", review)] : []]
}

const ofReviewComment = (event: Event): ReadonlyArray<News> => {
  const payload = decoded(Payloads.pull_request_review_comment, event.payload)
  if (payload === null) return []
  const { action, comment, pull_request: pull } = payload
  const about = { number: pull.number, isPull: true, title: pull.title ?? "" }
  return [changed(event, pull), ...action === "created" ? [said(event, about, "review_comment", comment)] : []]
}

const aboutIssue = (issue: typeof Issue.Type): About => ({
  number: issue.number,
  isPull: issue.pull_request != null,
  title: issue.title
})

const ofIssueComment = (event: Event): ReadonlyArray<News> => {
  const payload = decoded(Payloads.issue_comment, event.payload)
  if (payload === null) return []
  const { action, comment, issue } = payload
  const about = aboutIssue(issue)
  return [
    ...about.isPull ? [{ _tag: "Pull", repo: event.repo, branch: null, number: about.number } as const] : [],
    ...action === "created" ? [said(event, about, "comment", comment)] : []
  ]
}

const ofIssue = (event: Event): ReadonlyArray<News> => {
  const payload = decoded(Payloads.issues, event.payload)
  if (payload === null) return []
  const { action, issue, label } = payload
  const { body, html_url: url, updated_at: updatedAt } = issue
  if (action === "opened") return [said(event, aboutIssue(issue), "issue", issue)]
  return action === "labeled" && label !== undefined
    ? [labelled(event, { ...aboutIssue(issue), body, url, label: label.name, updatedAt })]
    : []
}

const ofChecks = (event: Event): ReadonlyArray<News> => {
  const payload = decoded(Payloads.checked, event.payload)
  const checked = payload?.check_run ?? payload?.check_suite ?? payload?.workflow_run
  if (payload?.action !== "completed" || checked === undefined) return []
  const pulls = (checked.pull_requests ?? []).flatMap((pull) => pull === null ? [] : [changed(event, pull)])
  const branch = checked.head_branch ?? checked.check_suite?.head_branch ?? null
  // GitHub leaves the list empty for pull requests from forks, and for runs of a push before the pull request was opened.
  return pulls.length > 0 || branch === null ? pulls : [{ _tag: "Pull", repo: event.repo, branch, number: null }]
}

const ofPush = (event: Event): ReadonlyArray<News> => {
  const ref = decoded(Payloads.push, event.payload)?.ref ?? ""
  const branch = /^refs\/heads\/(.+)$/su.exec(ref)?.[1]
  return branch === undefined ? [] : [{ _tag: "Pull", repo: event.repo, branch, number: null }]
}

const isRepoName = Schema.is(RepoName)

const ofRepository = (event: Event): ReadonlyArray<News> => {
  const payload = decoded(Payloads.repository, event.payload)
  if (payload === null) return []
  const [owner = "", name = ""] = event.repo.split("/")
  const { owner: former, repository } = payload.changes
  const from = payload.action === "renamed" && repository !== undefined
    ? `${owner}/${repository.name.from}`
    : payload.action === "transferred"
    ? `${former?.from.organization?.login ?? former?.from.user?.login}/${name}`
    : ""
  return isRepoName(from) ? [{ _tag: "Renamed", from, repo: event.repo }] : []
}

const readers: Readonly<Record<string, (event: Event) => ReadonlyArray<News>>> = {
  pull_request: ofPull,
  pull_request_review: ofReview,
  pull_request_review_comment: ofReviewComment,
  pull_request_review_thread: ofPull,
  issue_comment: ofIssueComment,
  issues: ofIssue,
  check_run: ofChecks,
  check_suite: ofChecks,
  workflow_run: ofChecks,
  push: ofPush,
  repository: ofRepository
}

/** Empty: an unknown or irrelevant event, or a payload of another form. */
export const newsOf = (event: Event): ReadonlyArray<News> => {
  // Names come from the network.
  const read = Object.hasOwn(readers, event.name) ? readers[event.name] : undefined
  return read?.(event) ?? []
}
