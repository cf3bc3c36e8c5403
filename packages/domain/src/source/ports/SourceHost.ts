/** Port: where repositories and pull requests live. Checked by `SourceHostContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { PullRequest, PullRequestDetails } from "../schema/PullRequest.ts"
import type { RepoName } from "../schema/RepoRef.ts"

/** The host does not have the repository, or does not let this installation use it. Retrying does not help. */
export class RepoNotAccessible extends Schema.TaggedError<RepoNotAccessible>()("RepoNotAccessible", {
  repo: Schema.String,
  /** What to do about it, a sentence for people. */
  advice: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    return `repository ${this.repo} is not accessible${this.advice === undefined ? "" : `. ${this.advice}`}`
  }
}

/** The host failed or refused. `retryable`: nothing is known to be wrong with the request. */
export class SourceHostError extends Schema.TaggedError<SourceHostError>()("SourceHostError", {
  operation: Schema.String,
  /** A sentence for people, free of secrets. */
  detail: Schema.String,
  retryable: Schema.Boolean,
  /** Seconds the host asked us to wait, when it did. */
  retryAfter: Schema.optionalKey(Schema.Int)
}) {
  override get message() {
    return `source host could not ${this.operation}: ${this.detail}`
  }
}

/** Where git fetches from or pushes to, for one operation. */
export interface Remote {
  /** Free of secrets. A `file:` URL or an absolute path on this machine for local repositories. */
  readonly url: string
  /** `Authorization` value for that URL; minted for this operation, never stored, never in an argument or a file. */
  readonly authorization: Redacted.Redacted | null
}

/** A repository that the host lets us see. */
export interface Repository {
  /** As the host spells it. */
  readonly fullName: RepoName
  readonly defaultBranch: string
}

/** Which repositories to list. */
export interface RepositoryQuery {
  /**
   * Accounts, in lower case, that whoever asks may know of: what others have is not told. At most {@link MAX_OWNERS} of them are looked
   * at. A host whose repositories are the operator's own tells of all.
   */
  readonly owners: ReadonlyArray<string>
  /** Part of the name, whatever the case; empty: any. */
  readonly search: string
  /** What the page before ended with; `null`: from the beginning. */
  readonly after: RepoName | null
  /** At least 1. */
  readonly limit: number
}

/** Accounts of one {@link RepositoryQuery}. */
export const MAX_OWNERS = 20

/** A page of these names, as {@link RepositoryQuery} says. */
export const pageOfNames = (
  names: ReadonlyArray<RepoName>,
  { after, limit, search }: Pick<RepositoryQuery, "after" | "limit" | "search">
): ReadonlyArray<RepoName> => {
  const [from, part] = [after?.toLowerCase() ?? "", search.toLowerCase()]
  return names
    .map((name) => ({ name, key: name.toLowerCase() }))
    .filter(({ key }) => key > from && key.includes(part))
    .sort((a, b) => a.key < b.key ? -1 : a.key > b.key ? 1 : 0)
    .slice(0, limit)
    .map(({ name }) => name)
}

/** Checked by `SourceHostContract`. */
export class SourceHost extends Context.Service<SourceHost, {
  /** Short name that goes into ids of pull requests, e.g. `github.com` or `local`. */
  readonly name: string
  /**
   * Why sandboxes cannot start from one of the repositories, with advice; `null`: nothing is known against them. Says what
   * is known here without asking anybody, so that a request can wait for it: `repository` and `remote` may yet refuse.
   */
  refusal(repos: ReadonlyArray<RepoName>): Effect.Effect<RepoNotAccessible | null>
  /**
   * Repositories that sandboxes may start from, as the host spells them, in the order of their names in lower case. For choosing one: what
   * is not listed may be there all the same, and what came in the last minutes may be missing.
   */
  repositories(query: RepositoryQuery): Effect.Effect<ReadonlyArray<RepoName>, SourceHostError>
  repository(repo: RepoName): Effect.Effect<Repository, RepoNotAccessible | SourceHostError>
  /** Credentials limited to one repository and to what `access` needs. */
  remote(repo: RepoName, access: "read" | "write"): Effect.Effect<Remote, RepoNotAccessible | SourceHostError>
  /** The open pull request whose head is `headRef`, if there is one. Reads what the host holds now, not a cache. */
  findOpenPullRequest(repo: RepoName, headRef: string): Effect.Effect<PullRequest | null, RepoNotAccessible | SourceHostError>
  /** Opens a draft. Never retried blindly: look for an open one by head first. */
  openDraftPullRequest(repo: RepoName, draft: {
    readonly title: string
    readonly body: string
    readonly baseRef: string
    readonly headRef: string
    readonly headSha: string
    readonly at: DateTime.Utc
  }): Effect.Effect<PullRequest, RepoNotAccessible | SourceHostError>
  /** Tells the host that the branch was pushed to. Hosts that notice by themselves return the pull request as it is. */
  pullRequestPushed(repo: RepoName, number: number, push: { readonly headSha: string; readonly at: DateTime.Utc }): Effect.Effect<
    PullRequest,
    RepoNotAccessible | SourceHostError
  >
  /** Everything the interface shows of a pull request, as the host knows it now. */
  pullRequestDetails(repo: RepoName, number: number): Effect.Effect<PullRequestDetails, RepoNotAccessible | SourceHostError>
}>()("@slipway/domain/SourceHost") {
}
