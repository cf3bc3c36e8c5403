/**
 * The rules that every `SourceHost` must keep. An adapter proves itself by running this suite against its layer; a rule that is missing
 * here is not part of the port. Runs on real repositories, so it uses the real clock.
 */
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { MAX_COMMENT, noChecks } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { assert } from "../../suite/Assert.ts"
import { defineLive, type Writer } from "../../suite/Suite.ts"

type Changes = Readonly<Record<string, string | null>>

/** A repository on the host, and what people do there without us. */
export interface HostedRepository {
  /** As the host spells it. Has letters. */
  readonly fullName: RepoName
  /**
   * Commits on top of `branch`, or starts it from the default branch. `null` deletes a file. Gives the commit. `title`: its message, for
   * hosts with `PullRequests`, where its author is Ada.
   */
  commit(branch: string, changes: Changes, title?: string): Effect.Effect<string>
  /** Merges by a merge commit. */
  merge(head: string, base: string): Effect.Effect<void>
  deleteBranch(branch: string): Effect.Effect<void>
  /** Accounts, where not every account may write. `renamed` has the login of the writer, and another id. */
  readonly accounts?: Record<"writer" | "reader" | "stranger" | "renamed", { readonly id: string; readonly login: string }>
  /** Labels and reviewers, where the host has them: `label` exists, `team` and the writer can review. */
  readonly reviewing?: {
    readonly label: string
    readonly team: string
    /** The labels and reviewers of a pull request. */
    of(number: number): Effect.Effect<{ readonly labels: ReadonlyArray<string>; readonly reviewers: number }>
  }

  /** Characters of a title that the host keeps, if it keeps fewer than a list shows. */
  readonly longestTitle?: number
  /** Protects a branch from pushes. Left out where that is impossible. */
  protect?(branch: string): Effect.Effect<void>
  /** Opens a pull request from a branch of that repository; `null`: it was deleted since. Left out where that is impossible. */
  openFromFork?(repo: string | null): Effect.Effect<number>
  /** Comments on a pull request, or on a line of one of its files, as another user. Left out where comments are impossible. */
  comment?(number: number, comment: { readonly text: string; readonly path?: string; readonly line?: number }): Effect.Effect<void>
}

/** Operations that the suite needs and the port lacks. */
export interface Fixture<R> {
  /** A new repository with these files on `trunk`, its default branch. */
  repository(files: Changes): Effect.Effect<HostedRepository, unknown, Scope.Scope | R>
}

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const later = DateTime.makeUnsafe("2026-11-21T02:42:00.456Z")
const unknown = RepoName.make("nobody/nothing-of-that-name")

const refusal = <A, E extends { readonly _tag: string }, R>(self: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.result(self), (result) => Result.isFailure(result) ? result.failure : assert.fail("was not refused"))

/** Shared by the rules below. */
const helpersOf = <R>(fixture: Fixture<R>) => {
  /** A repository with a branch that was pushed: three lines more, one less, in two files. */
  const pushed = Effect.gen(function*() {
    const host = yield* SourceHost
    const repository = yield* fixture.repository({ "README.md": "one\ntwo\n", "a": "a\n" })
    const headSha = yield* repository.commit("slipway/x", { "README.md": "one\n2\n", "new": "1\n2\n" })
    const draft = { title: "Title", body: "Body", baseRef: "trunk", headRef: "slipway/x", headSha, at }
    return { host, repository, repo: repository.fullName, draft }
  })
  return { pushed }
}

const repositories = <R>(it: Writer<SourceHost | R>, fixture: Fixture<R>, { pushed }: ReturnType<typeof helpersOf<R>>) => {
  it.effect("does not know a repository that is not there", () =>
    Effect.gen(function*() {
      const host = yield* SourceHost
      const draft = { title: "t", body: "", baseRef: "trunk", headRef: "x", headSha: "0".repeat(40), at }
      const errors = [
        yield* refusal(host.repository(unknown)),
        yield* refusal(host.mayWrite(unknown, { id: "1", login: "ada" })),
        yield* refusal(host.remote(unknown, "read")),
        yield* refusal(host.remote(unknown, "write")),
        yield* refusal(host.findOpenPullRequest(unknown, "x")),
        yield* refusal(host.openDraftPullRequest(unknown, draft)),
        yield* refusal(host.pullRequestPushed(unknown, 1, { headSha: draft.headSha, at })),
        yield* refusal(host.pullRequestDetails(unknown, 1)),
        yield* refusal(host.readyPullRequest(unknown, 1)),
        yield* refusal(host.decoratePullRequest(unknown, 1, { labels: ["x"], reviewers: ["x"] }))
      ]
      assert.deepStrictEqual(errors.map(({ _tag }) => _tag), errors.map(() => "RepoNotAccessible"))
    }))

  it.effect("refuses what is known not to be accessible, with advice, and nothing else", () =>
    Effect.gen(function*() {
      const { host, repo } = yield* pushed
      // A host that keeps a list of what it was told may not have it yet, and refuses nothing until then.
      const found = yield* host.refusal([repo, unknown]).pipe(Effect.repeat({
        until: (refused) => refused !== null,
        times: 500,
        schedule: Schedule.spaced("20 millis")
      }))
      assert.deepInclude(found, { _tag: "RepoNotAccessible", repo: unknown })
      assert.match(found?.message ?? "", /nobody\/nothing-of-that-name is not accessible\. (?:Add|Install) /u)
      for (const spelling of [repo, repo.toUpperCase(), repo.toLowerCase()]) assert.isNull(yield* host.refusal([RepoName.make(spelling)]))
      assert.isNull(yield* host.refusal([]))
    }))

  it.effect("lists repositories by part of their name, page by page, in the order of their names", () =>
    Effect.gen(function*() {
      const host = yield* SourceHost
      const one = yield* fixture.repository({ a: "a\n" })
      const two = yield* fixture.repository({ a: "a\n" })
      const owner = one.fullName.split("/")[0]?.toLowerCase() ?? ""
      const own = [one.fullName, two.fullName].sort((a, b) => a.toLowerCase() < b.toLowerCase() ? -1 : 1)
      const query = { owners: [owner, "nobody-of-that-name"], search: "", after: null, limit: 1000 }
      const every = yield* host.repositories(query)
      assert.deepStrictEqual(every.filter((name) => own.includes(name)), own)
      assert.deepStrictEqual(every, [...every].sort((a, b) => a.toLowerCase() < b.toLowerCase() ? -1 : 1))
      const paged: Array<RepoName> = []
      for (let after: RepoName | null = null;;) {
        const page: ReadonlyArray<RepoName> = yield* host.repositories({ ...query, after, limit: 1 })
        if (page.length === 0) break
        assert.lengthOf(page, 1)
        paged.push(...page)
        after = page.at(-1) ?? null
      }
      assert.deepStrictEqual(paged, every)
      for (const search of [one.fullName.slice(2), one.fullName.toUpperCase()]) {
        assert.include(yield* host.repositories({ ...query, search }), one.fullName)
      }
      assert.deepStrictEqual(yield* host.repositories({ ...query, search: "%_nothing" }), [])
    }))

  it.effect("finds a repository in any case of letters, and says how it is spelled", () =>
    Effect.gen(function*() {
      const { host, repo } = yield* pushed
      for (const spelling of [repo, repo.toUpperCase(), repo.toLowerCase()]) {
        assert.deepStrictEqual(yield* host.repository(RepoName.make(spelling)), { fullName: repo, defaultBranch: "trunk" })
      }
    }))
}

const accessTo = <R>(it: Writer<SourceHost | R>, { pushed }: ReturnType<typeof helpersOf<R>>) => {
  it.effect("says which accounts may write", () =>
    Effect.gen(function*() {
      const { host, repo, repository } = yield* pushed
      const { accounts } = repository
      if (accounts === undefined) {
        assert.isTrue(yield* host.mayWrite(repo, { id: "1", login: "ada" }))
        return
      }
      const may = yield* Effect.forEach(Object.entries(accounts), ([name, account]) =>
        Effect.map(host.mayWrite(repo, account), (may) => [name, may] as const))
      assert.deepStrictEqual(Object.fromEntries(may), { writer: true, reader: false, stranger: false, renamed: false })
    }))

  it.effect("names the repository of an address of its own, and none for any other", () =>
    Effect.gen(function*() {
      const { host, repo } = yield* pushed
      const { url } = yield* host.remote(repo, "read")
      assert.strictEqual((yield* host.repositoryAt(url))?.toLowerCase(), repo.toLowerCase())
      const others = [
        "",
        "/",
        "/etc",
        "../other.git",
        "file:///etc",
        "ext::sh -c touch% x",
        "--upload-pack=touch",
        "https://elsewhere.invalid/acme/app.git",
        "git@elsewhere.invalid:acme/app.git",
        `${url}/../../../etc`,
        `${url}\n`,
        `x${url}`
      ]
      for (const address of others) assert.isNull(yield* host.repositoryAt(address), address)
    }))

  it.effect("gives a remote whose URL holds no secret", () =>
    Effect.gen(function*() {
      const { host, repo } = yield* pushed
      for (const access of ["read", "write"] as const) {
        const { url } = yield* host.remote(repo, access)
        assert.match(url, /^(?:https?:\/\/|file:\/\/|\/)/u)
        assert.notMatch(url, /@|[?#]/u)
      }
    }))
}

const draftPullRequests = <R>(it: Writer<SourceHost | R>, { pushed }: ReturnType<typeof helpersOf<R>>) => {
  it.effect("opens a draft once, and finds it by its branch", () =>
    Effect.gen(function*() {
      const { draft, host, repo } = yield* pushed
      assert.isNull(yield* host.findOpenPullRequest(repo, draft.headRef))
      const opened = yield* host.openDraftPullRequest(repo, draft)
      assert.deepInclude(opened, {
        title: "Title",
        state: "open",
        draft: true,
        merged: false,
        baseRef: "trunk",
        headRef: "slipway/x",
        headSha: draft.headSha,
        additions: 3,
        deletions: 1,
        changedFiles: 2
      })
      assert.isAbove(opened.number, 0)
      assert.match(opened.url, /^https?:\/\/.+/u)
      assert.deepStrictEqual(yield* host.findOpenPullRequest(repo, draft.headRef), opened)
      for (const other of ["slipway/other", "slipway/X", "slipway", "x"]) assert.isNull(yield* host.findOpenPullRequest(repo, other))
      assert.deepStrictEqual(yield* host.pullRequestDetails(repo, opened.number), {
        pullRequest: opened,
        checks: noChecks,
        comments: [],
        pending: false
      })

      const again = yield* refusal(host.openDraftPullRequest(repo, draft))
      assert.deepInclude(again, { _tag: "SourceHostError", retryable: false })
    }))

  it.effect("ends a draft once, and changes no pull request that ended", () =>
    Effect.gen(function*() {
      const { draft, host, repo, repository } = yield* pushed
      const opened = yield* host.openDraftPullRequest(repo, draft)
      const ready = yield* host.readyPullRequest(repo, opened.number)
      const { updatedAt: _, ...rest } = ready
      const { updatedAt: __, ...before } = opened
      assert.deepStrictEqual(rest, { ...before, draft: false })
      assert.deepStrictEqual(yield* host.findOpenPullRequest(repo, draft.headRef), ready)
      assert.deepStrictEqual(yield* host.readyPullRequest(repo, opened.number), ready)
      const headSha = yield* repository.commit("slipway/y", { y: "y\n" })
      const other = yield* host.openDraftPullRequest(repo, { ...draft, headRef: "slipway/y", headSha })
      yield* repository.deleteBranch("slipway/y")
      assert.deepInclude(yield* host.readyPullRequest(repo, other.number), { state: "closed", draft: true })
    }))

  it.effect("of many who open one for the same branch exactly one succeeds", () =>
    Effect.gen(function*() {
      const { draft, host, repo } = yield* pushed
      const results = yield* Effect.forEach(
        Array.from({ length: 5 }),
        () => Effect.result(host.openDraftPullRequest(repo, draft)),
        { concurrency: "unbounded" }
      )
      const opened = results.filter(Result.isSuccess).map(({ success }) => success)
      assert.strictEqual(opened.length, 1)
      assert.deepStrictEqual(yield* host.findOpenPullRequest(repo, draft.headRef), opened[0] ?? null)
    }))
}

/** Labels, reviewers and comments of pull requests. */
const decorations = <R>(it: Writer<SourceHost | R>, { pushed }: ReturnType<typeof helpersOf<R>>) => {
  it.effect("adds labels and reviewers that it has, and names the others, however often it is asked", () =>
    Effect.gen(function*() {
      const { draft, host, repo, repository: { accounts, reviewing } } = yield* pushed
      const { number } = yield* host.openDraftPullRequest(repo, draft)
      assert.deepStrictEqual(yield* host.decoratePullRequest(repo, number, { labels: [], reviewers: [] }), [])
      const [label, team, person] = [reviewing?.label ?? "label", reviewing?.team ?? "acme/team", accounts?.writer.login ?? "ada"]
      // A team of the same name in another organization.
      const elsewhere = `elsewhere/${team.split("/")[1]}`
      const asked = { labels: ["not/there #1", label], reviewers: ["nobody-of-that-name", person, team, "acme/no-team", elsewhere] }
      for (let times = 0; times < 2; times++) {
        assert.deepStrictEqual(
          yield* host.decoratePullRequest(repo, number, asked),
          reviewing === undefined
            ? [...asked.labels, ...asked.reviewers]
            : ["not/there #1", "nobody-of-that-name", "acme/no-team", elsewhere]
        )
        if (reviewing !== undefined) assert.deepStrictEqual(yield* reviewing.of(number), { labels: [label], reviewers: 2 })
      }
    }))

  it.effect("tells of comments, oldest first, what the beginning of each says and where it stands", () =>
    Effect.gen(function*() {
      const { draft, host, repo, repository } = yield* pushed
      const { comment } = repository
      // Comments are impossible there.
      if (comment === undefined) return
      const { number } = yield* host.openDraftPullRequest(repo, draft)
      // A character of two units on the border is not cut in two.
      const long = `${"x".repeat(MAX_COMMENT - 1)}🦜 and more`
      const hostile = "<script>alert(1)</script> [x](javascript:alert(1)) \u202e\u001b[31m"
      yield* comment(number, { text: "" })
      yield* comment(number, { text: hostile, path: "src/<b>.ts", line: 7 })
      yield* comment(number, { text: "x".repeat(MAX_COMMENT) })
      yield* comment(number, { text: long })
      const { comments } = yield* host.pullRequestDetails(repo, number)
      assert.deepStrictEqual(comments.map(({ isWhole, line, path, text }) => ({ isWhole, line, path, text })), [
        { isWhole: true, line: null, path: null, text: "" },
        { isWhole: true, line: 7, path: "src/<b>.ts", text: hostile },
        { isWhole: true, line: null, path: null, text: "x".repeat(MAX_COMMENT) },
        { isWhole: false, line: null, path: null, text: "x".repeat(MAX_COMMENT - 1) }
      ])
      assert.strictEqual(new Set(comments.map(({ id }) => id)).size, 4)
      for (const { author, createdAt, url } of comments) {
        assert.notStrictEqual(author, "")
        assert.isFalse(Number.isNaN(Date.parse(createdAt)))
        assert.match(url, /^https?:\/\/.+/u)
      }
    }))
}

const pullRequestStates = <R>(it: Writer<SourceHost | R>, { pushed }: ReturnType<typeof helpersOf<R>>) => {
  it.effect("pull requests of different branches have numbers, ids and addresses of their own", () =>
    Effect.gen(function*() {
      const { draft, host, repo, repository } = yield* pushed
      const one = yield* host.openDraftPullRequest(repo, draft)
      const headSha = yield* repository.commit("slipway/y", { y: "y\n" })
      const two = yield* host.openDraftPullRequest(repo, { ...draft, headRef: "slipway/y", headSha })
      assert.isAbove(two.number, one.number)
      for (const field of ["id", "nodeId", "url"] as const) assert.notStrictEqual(one[field], two[field])
      assert.deepStrictEqual((yield* host.pullRequestDetails(repo, one.number)).pullRequest, one)
      // Numbers are the repository's, the rest is the host's.
      const elsewhere = yield* pushed
      const other = yield* host.openDraftPullRequest(elsewhere.repo, elsewhere.draft)
      for (const field of ["id", "nodeId", "url"] as const) assert.notInclude([one[field], two[field]], other[field])
    }))

  it.effect("refuses a draft from or to a branch that is not there", () =>
    Effect.gen(function*() {
      const { draft, host, repo } = yield* pushed
      for (const wrong of [{ baseRef: "missing" }, { headRef: "slipway/missing" }]) {
        assert.deepInclude(yield* refusal(host.openDraftPullRequest(repo, { ...draft, ...wrong })), {
          _tag: "SourceHostError",
          retryable: false
        })
      }
    }))

  it.effect("follows what is pushed to the branch, and counts only what the branch changed", () =>
    Effect.gen(function*() {
      const { draft, host, repo, repository } = yield* pushed
      const opened = yield* host.openDraftPullRequest(repo, draft)
      yield* repository.commit("trunk", { other: "1\n2\n3\n4\n" })
      const headSha = yield* repository.commit("slipway/x", { a: null, new: "1\n" })
      const updated = yield* host.pullRequestPushed(repo, opened.number, { headSha, at: later })
      const { updatedAt: _, ...rest } = updated
      const { updatedAt: __, ...before } = opened
      assert.deepStrictEqual(rest, { ...before, headSha, additions: 2, deletions: 2, changedFiles: 3 })
      assert.isTrue(DateTime.isGreaterThan(updated.updatedAt, opened.updatedAt))
      assert.deepStrictEqual((yield* host.pullRequestDetails(repo, opened.number)).pullRequest, updated)
    }))

  it.effect("notices that a pull request was merged, and what is merged stays merged", () =>
    Effect.gen(function*() {
      const { draft, host, repo, repository } = yield* pushed
      const opened = yield* host.openDraftPullRequest(repo, draft)
      yield* repository.merge("slipway/x", "trunk")
      assert.isNull(yield* host.findOpenPullRequest(repo, draft.headRef))
      const { pullRequest } = yield* host.pullRequestDetails(repo, opened.number)
      assert.deepInclude(pullRequest, {
        state: "closed",
        merged: true,
        headSha: draft.headSha,
        additions: 3,
        deletions: 1,
        changedFiles: 2
      })
      yield* repository.deleteBranch("slipway/x")
      assert.deepStrictEqual((yield* host.pullRequestDetails(repo, opened.number)).pullRequest, pullRequest)
    }))

  it.effect("a branch whose pull request is closed can have a new one", () =>
    Effect.gen(function*() {
      const { draft, host, repo, repository } = yield* pushed
      const first = yield* host.openDraftPullRequest(repo, draft)
      yield* repository.deleteBranch("slipway/x")
      assert.isNull(yield* host.findOpenPullRequest(repo, draft.headRef))
      assert.deepInclude((yield* host.pullRequestDetails(repo, first.number)).pullRequest, { state: "closed", merged: false })
      const headSha = yield* repository.commit("slipway/x", { again: "1\n" })
      const second = yield* host.openDraftPullRequest(repo, { ...draft, headSha })
      assert.isAbove(second.number, first.number)
      assert.deepInclude((yield* host.pullRequestDetails(repo, first.number)).pullRequest, { state: "closed", merged: false })
    }))

  it.effect("does not know a pull request that is not there", () =>
    Effect.gen(function*() {
      const { draft, host, repo } = yield* pushed
      const { number } = yield* host.openDraftPullRequest(repo, draft)
      for (
        const error of [
          yield* refusal(host.pullRequestDetails(repo, number + 1)),
          yield* refusal(host.pullRequestPushed(repo, number + 1, { headSha: draft.headSha, at })),
          yield* refusal(host.readyPullRequest(repo, number + 1))
        ]
      ) assert.deepInclude(error, { _tag: "SourceHostError", retryable: false })
    }))
}

/** The reads with which a sandbox continues a branch or a pull request (docs/decisions/24). */
const continuing = <R>(it: Writer<SourceHost | R>, { pushed }: ReturnType<typeof helpersOf<R>>) => {
  it.effect("knows the newest commit of a branch by its exact name", () =>
    Effect.gen(function*() {
      const { draft, host, repo, repository } = yield* pushed
      assert.deepStrictEqual(yield* host.branch(repo, "slipway/x"), { headSha: draft.headSha, isProtected: false })
      const next = yield* repository.commit("slipway/x", { next: "1\n" })
      assert.deepStrictEqual(yield* host.branch(repo, "slipway/x"), { headSha: next, isProtected: false })
      for (const other of ["slipway/X", "slipway", "x", "slipway/*", "refs/heads/slipway/x", "a..b", "--all", ""]) {
        assert.isNull(yield* host.branch(repo, other), other)
      }
      assert.strictEqual((yield* refusal(host.branch(unknown, "trunk")))._tag, "RepoNotAccessible")
    }))

  it.effect("says which branches are protected", () =>
    Effect.gen(function*() {
      const { host, repo, repository } = yield* pushed
      // Protection is impossible there.
      if (repository.protect === undefined) return
      yield* repository.protect("slipway/x")
      assert.deepInclude(yield* host.branch(repo, "slipway/x"), { isProtected: true })
      assert.deepInclude(yield* host.branch(repo, "trunk"), { isProtected: false })
    }))

  it.effect("knows a pull request and the repository of its branch", () =>
    Effect.gen(function*() {
      const { draft, host, repo, repository } = yield* pushed
      const opened = yield* host.openDraftPullRequest(repo, draft)
      assert.deepStrictEqual(yield* host.pullRequestSource(repo, opened.number), { pullRequest: opened, headRepo: repo })
      assert.isNull(yield* host.pullRequestSource(repo, opened.number + 1))
      yield* repository.merge("slipway/x", "trunk")
      assert.deepInclude((yield* host.pullRequestSource(repo, opened.number))?.pullRequest, { state: "closed", merged: true })
      assert.strictEqual((yield* refusal(host.pullRequestSource(unknown, 1)))._tag, "RepoNotAccessible")
    }))

  it.effect("tells a pull request from a fork from its own, and lists its own open ones, newest first", () =>
    Effect.gen(function*() {
      const { draft, host, repo, repository } = yield* pushed
      assert.deepStrictEqual(yield* host.openPullRequests(repo), [])
      const first = yield* host.openDraftPullRequest(repo, draft)
      const headSha = yield* repository.commit("feature/y", { y: "1\n" })
      const second = yield* host.openDraftPullRequest(repo, { ...draft, title: "x".repeat(300), headRef: "feature/y", headSha })
      if (repository.openFromFork !== undefined) {
        for (const fork of ["someone/else", null]) {
          const number = yield* repository.openFromFork(fork)
          assert.strictEqual((yield* host.pullRequestSource(repo, number))?.headRepo, fork)
        }
      }
      const listed = [
        { number: second.number, title: "x".repeat(repository.longestTitle ?? 256), headRef: "feature/y" },
        { number: first.number, title: "Title", headRef: "slipway/x" }
      ]
      assert.deepStrictEqual(yield* host.openPullRequests(repo), listed)
      yield* repository.deleteBranch("feature/y")
      assert.deepStrictEqual(yield* host.openPullRequests(repo), listed.slice(1))
      assert.strictEqual((yield* refusal(host.openPullRequests(unknown)))._tag, "RepoNotAccessible")
    }))
}

/** For every host. */
export const suite = <R>(name: string, layer: Layer.Layer<SourceHost | R, unknown>, fixture: Fixture<R>) =>
  defineLive(`SourceHost (${name})`, layer, (it) => {
    const helpers = helpersOf(fixture)
    repositories(it, fixture, helpers)
    accessTo(it, helpers)
    draftPullRequests(it, helpers)
    decorations(it, helpers)
    pullRequestStates(it, helpers)
    continuing(it, helpers)
  })
