/** Port: the host of repositories and pull requests. Checked by `SourceHostContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { PullRequest, PullRequestDetails } from "../schema/PullRequest.ts"
import type { RepoName } from "../schema/RepoRef.ts"
import type { BranchState, PullRequestSource } from "../schema/WritableBranch.ts"

/** The host does not have the repository, or this installation may not use it. Retrying does not help. */
export class RepoNotAccessible extends Schema.TaggedError<RepoNotAccessible>()("RepoNotAccessible", {
  repo: Schema.String,
  /** The remedy, as a sentence for people. */
  advice: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    return `repository ${this.repo} is not accessible${this.advice === undefined ? "" : `. ${this.advice}`}`
  }
}

/** The host failed or refused. `retryable`: the request itself is valid as far as is known. */
export class SourceHostError extends Schema.TaggedError<SourceHostError>()("SourceHostError", {
  operation: Schema.String,
  /** A sentence for people, free of secrets. */
  detail: Schema.String,
  retryable: Schema.Boolean,
  /** The wait that the host asked for, in seconds. */
  retryAfter: Schema.optionalKey(Schema.Int)
}) {
  override get message() {
    return `source host could not ${this.operation}: ${this.detail}`
  }
}

/** The address for git to fetch from or push to, for one operation. */
export interface Remote {
  /** Free of secrets. For local repositories, a `file:` URL or an absolute path on this machine. */
  readonly url: string
  /** The `Authorization` value for that URL. It is made for this operation and never stored, in an argument or in a file. */
  readonly authorization: Redacted.Redacted | null
}

/** A repository that the host shows us. */
export interface Repository {
  /** As the host spells it. */
  readonly fullName: RepoName
  readonly defaultBranch: string
}

/** A page of repositories. */
export interface RepositoryQuery {
  /**
   * The accounts, in lower case, whose repositories the caller may know of. At most {@link MAX_OWNERS} of them are read. A host with
   * the operator's own repositories lists all.
   */
  readonly owners: ReadonlyArray<string>
  /** Part of the name, in any case; empty: all names. */
  readonly search: string
  /** The last name of the previous page; `null`: from the beginning. */
  readonly after: RepoName | null
  /** At least 1. */
  readonly limit: number
}

/** Accounts of one {@link RepositoryQuery}. */
export const MAX_OWNERS = 20

/** The page of these names for a {@link RepositoryQuery}. */
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

/** Pull requests that {@link SourceHost} lists for choosing. */
export const MAX_OPEN_PULLS = 50

/** An open pull request in a list. Its texts are untrusted. */
export interface OpenPull {
  readonly number: number
  /** At most 256 characters. */
  readonly title: string
  readonly headRef: string
}

/** The list's entry for a pull request. Its title is cut between characters. */
export const openPullOf = ({ headRef, number, title }: Pick<PullRequest, "headRef" | "number" | "title">): OpenPull => ({
  number,
  title: Array.from(title.slice(0, 512)).slice(0, 256).join(""),
  headRef
})

/** Checked by `SourceHostContract`. */
export class SourceHost extends Context.Service<SourceHost, {
  /** Short names, such as `github.com` or `local`: several where repositories are on several hosts. */
  readonly names: ReadonlyArray<string>
  /** The name among {@link names} of the repository's host, as in ids of pull requests. Asks no host. */
  nameOf(repo: RepoName): Effect.Effect<string, RepoNotAccessible | SourceHostError>
  /**
   * Why sandboxes cannot start from one of the repositories, with advice; `null`: no known reason. Uses only local knowledge without a
   * remote call, so that requests can wait for it. `repository` and `remote` may still refuse.
   */
  refusal(repos: ReadonlyArray<RepoName>): Effect.Effect<RepoNotAccessible | null>
  /**
   * Repositories that sandboxes may start from, as the host spells them, in the order of their lower-case names. The list is for
   * choosing: it may lack repositories, such as those of the last minutes.
   */
  repositories(query: RepositoryQuery): Effect.Effect<ReadonlyArray<RepoName>, SourceHostError>
  repository(repo: RepoName): Effect.Effect<Repository, RepoNotAccessible | SourceHostError>
  /**
   * The repository that an absolute address of git names here; `null`: it names none. The address is untrusted. Whether the repository
   * exists and may be used is said by `remote`.
   */
  repositoryAt(address: string): Effect.Effect<RepoName | null, SourceHostError>
  /**
   * Whether the account may push to the repository, now. Where all users may write, every account may. An account that the host does not
   * know, or whose login is now another account's, may not.
   */
  mayWrite(
    repo: RepoName,
    author: { readonly id: string; readonly login: string }
  ): Effect.Effect<boolean, RepoNotAccessible | SourceHostError>
  /** Credentials for one repository, limited to `access`. */
  remote(repo: RepoName, access: "read" | "write"): Effect.Effect<Remote, RepoNotAccessible | SourceHostError>
  /** The present state of a branch, by its exact name; `null`: there is no such branch. Reads without a cache. */
  branch(repo: RepoName, name: string): Effect.Effect<BranchState | null, RepoNotAccessible | SourceHostError>
  /** A pull request and where its branch is; `null`: there is no such pull request. Reads the host's present state without a cache. */
  pullRequestSource(repo: RepoName, number: number): Effect.Effect<PullRequestSource | null, RepoNotAccessible | SourceHostError>
  /** The newest {@link MAX_OPEN_PULLS} open pull requests whose branch is in the repository itself, newest first: for choosing. */
  openPullRequests(repo: RepoName): Effect.Effect<ReadonlyArray<OpenPull>, RepoNotAccessible | SourceHostError>
  /** The open pull request with the head `headRef`; `null`: none. Reads the host's present state without a cache. */
  findOpenPullRequest(repo: RepoName, headRef: string): Effect.Effect<PullRequest | null, RepoNotAccessible | SourceHostError>
  /** Opens a draft. Before a retry, look for an open pull request by its head. */
  openDraftPullRequest(repo: RepoName, draft: {
    readonly title: string
    readonly body: string
    readonly baseRef: string
    readonly headRef: string
    readonly headSha: string
    readonly at: DateTime.Utc
  }): Effect.Effect<PullRequest, RepoNotAccessible | SourceHostError>
  /** Tells the host about a push to the branch. Hosts that notice pushes themselves return the pull request unchanged. */
  pullRequestPushed(repo: RepoName, number: number, push: { readonly headSha: string; readonly at: DateTime.Utc }): Effect.Effect<
    PullRequest,
    RepoNotAccessible | SourceHostError
  >
  /**
   * Adds labels and asks for reviews. Returns the names that the host did not take, as they were given: labels that do not exist, people
   * and teams that cannot review here. Labels and reviewers of other people stay. Safe to repeat.
   */
  decoratePullRequest(repo: RepoName, number: number, decoration: {
    readonly labels: ReadonlyArray<string>
    readonly reviewers: ReadonlyArray<string>
  }): Effect.Effect<ReadonlyArray<string>, RepoNotAccessible | SourceHostError>
  /** Ends the draft of an open pull request. Others are returned as they are. Safe to repeat. */
  readyPullRequest(repo: RepoName, number: number): Effect.Effect<PullRequest, RepoNotAccessible | SourceHostError>
  /** The present state of a pull request for the interface. */
  pullRequestDetails(repo: RepoName, number: number): Effect.Effect<PullRequestDetails, RepoNotAccessible | SourceHostError>
}>()("@slipway/domain/SourceHost") {
}
