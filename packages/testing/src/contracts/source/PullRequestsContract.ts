/**
 * The rules that every `PullRequests` must keep, beside the `SourceHost` of the same repositories. An adapter proves itself by running this
 * suite against its layer; a rule that is missing here is not part of the port. Runs on real repositories, so it uses the real clock.
 */
import { MAX_COMMIT_TITLE, MAX_COMMITS, type PullRequestRefused, PullRequests } from "@slipway/domain/source/ports/PullRequests"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { assert } from "../../suite/Assert.ts"
import { defineLive, type Writer } from "../../suite/Suite.ts"
import type { Fixture } from "./SourceHostContract.ts"

const author = { name: "Ada", email: "ada@example.com" }
const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const HEAD = "slipway/x"
const BODY = "It *fixes*\r\n<b>two</b>."
const TITLE = "Fix <b>\u202etwo"

/** A pull request of a branch with one commit. `push`: another commit on it. */
const openedOf = <R>(fixture: Fixture<R>) =>
  Effect.gen(function*() {
    const host = yield* SourceHost
    const pulls = yield* PullRequests
    assert(pulls !== null, "the layer has none")
    const repository = yield* fixture.repository({ a: "one\ntwo\n", b: "b\n" })
    const headSha = yield* repository.commit(HEAD, { a: "one\n2\n" }, TITLE)
    const repo = repository.fullName
    const { number } = yield* host.openDraftPullRequest(repo, { title: "t", body: BODY, baseRef: "trunk", headRef: HEAD, headSha, at })
    const standing = Effect.map(host.pullRequestDetails(repo, number), ({ pullRequest: { merged, state } }) => ({ merged, state }))
    const push = Effect.fnUntraced(function*(title: string) {
      const headSha = yield* repository.commit(HEAD, { a: `one\n${title}\n` }, title)
      yield* host.pullRequestPushed(repo, number, { headSha, at })
      return headSha
    })
    return { pulls, repository, repo, number, headSha, standing, push, options: { headSha, author } }
  })

const reading = <R>(it: Writer<SourceHost | R>, opened: ReturnType<typeof openedOf<R>>) => {
  it.effect("shows as a patch what the branch changed since it left its base, whatever came to the base, also once it is merged", () =>
    Effect.gen(function*() {
      const { number, options, pulls, repo, repository } = yield* opened
      yield* repository.commit("trunk", { b: "other\n" })
      const text = Effect.map(pulls.diff(repo, number), (bytes) => new TextDecoder().decode(bytes))
      const patch = yield* text
      assert.match(patch, /^diff --git a\/a b\/a\n/u)
      assert.include(patch, "\n one\n-two\n+2\n")
      assert.notInclude(patch, "other")
      yield* pulls.merge(repo, number, options)
      assert.strictEqual(yield* text, patch)
    }))

  it.effect("lists the commits of the branch since its base, oldest first, with the description, also once it is merged", () =>
    Effect.gen(function*() {
      const { headSha, number, options, pulls, push, repo, repository } = yield* opened
      yield* repository.commit("trunk", { b: "other\n" }, "Not of the branch")
      const second = yield* push(`${"long ".repeat(100)}\n\nThe text.`)
      const content = yield* pulls.content(repo, number)
      assert.strictEqual(content.description, BODY)
      assert.deepStrictEqual(content.commits.map(({ author, sha }) => ({ author, sha })), [
        { author: "Ada", sha: headSha },
        { author: "Ada", sha: second }
      ])
      const [first, last] = content.commits
      assert.strictEqual(first?.title, TITLE)
      assert.match(last?.title ?? "", /^long long/u)
      assert.isAtMost(last?.title.length ?? Infinity, MAX_COMMIT_TITLE)
      assert.isAbove(DateTime.toEpochMillis(first?.at ?? at), 0)
      assert.strictEqual(content.commitCount, 2)
      yield* pulls.merge(repo, number, { ...options, headSha: second })
      assert.deepStrictEqual(yield* pulls.content(repo, number), content)
    }))

  it.effect("lists the newest of many commits, and counts all", () =>
    Effect.gen(function*() {
      const { headSha, number, pulls, push, repo } = yield* opened
      let sha = headSha
      for (let i = 0; i < MAX_COMMITS; i++) sha = yield* push(`${i}`)
      const { commitCount, commits } = yield* pulls.content(repo, number)
      assert.deepStrictEqual([commitCount, commits.length], [MAX_COMMITS + 1, MAX_COMMITS])
      assert.deepStrictEqual([commits[0]?.title, commits.at(-1)?.sha], ["0", sha])
    }))
}

/** For every host whose pull requests have no pages there. */
export const suite = <R>(name: string, layer: Layer.Layer<SourceHost | R, unknown>, fixture: Fixture<R>) =>
  defineLive(`PullRequests (${name})`, layer, (it) => {
    const opened = openedOf(fixture)
    reading(it, opened)
    const reasonOf = <A, E, R>(self: Effect.Effect<A, E, R>) =>
      Effect.map(Effect.flip(self), (error) => (error as E & Partial<PullRequestRefused>).reason)

    it.effect("merges once, and says of the second time that nothing was done", () =>
      Effect.gen(function*() {
        const { number, options, pulls, repo, repository, standing } = yield* opened
        yield* repository.commit("trunk", { b: "other\n" })
        const first = yield* pulls.merge(repo, number, options)
        assert.deepInclude(first, { changed: true })
        assert.deepInclude(first.pullRequest, { state: "closed", merged: true })
        assert.deepStrictEqual(yield* standing, { state: "closed", merged: true })
        assert.deepInclude(yield* pulls.merge(repo, number, options), { changed: false })
        assert.strictEqual(yield* reasonOf(pulls.close(repo, number)), "merged")
      }))

    it.effect("closes once, and merges nothing that is closed", () =>
      Effect.gen(function*() {
        const { number, options, pulls, repo, standing } = yield* opened
        assert.deepInclude(yield* pulls.close(repo, number), { changed: true })
        assert.deepStrictEqual(yield* standing, { state: "closed", merged: false })
        assert.deepInclude(yield* pulls.close(repo, number), { changed: false })
        assert.strictEqual(yield* reasonOf(pulls.merge(repo, number, options)), "closed")
        assert.deepStrictEqual(yield* standing, { state: "closed", merged: false })
      }))

    it.effect("keeps the branch of what it closed or merged, for another pull request", () =>
      Effect.gen(function*() {
        const host = yield* SourceHost
        const { headSha, number, options, pulls, repo } = yield* opened
        const draft = { title: "t", body: "", baseRef: "trunk", headRef: HEAD, headSha, at }
        yield* pulls.close(repo, number)
        const again = yield* host.openDraftPullRequest(repo, draft)
        assert.isAbove(again.number, number)
        yield* pulls.merge(repo, again.number, options)
        assert.isAbove((yield* host.openDraftPullRequest(repo, draft)).number, again.number)
      }))

    it.effect("refuses what conflicts, and what is no longer the commit that was looked at, and changes nothing", () =>
      Effect.gen(function*() {
        const { headSha, number, options, pulls, repo, repository, standing } = yield* opened
        assert.strictEqual(yield* reasonOf(pulls.merge(repo, number, { ...options, headSha: "0".repeat(40) })), "outdated")
        yield* repository.commit("trunk", { a: "one\nzwei\n" })
        assert.strictEqual(yield* reasonOf(pulls.merge(repo, number, { ...options, headSha })), "conflict")
        assert.deepStrictEqual(yield* standing, { state: "open", merged: false })
      }))

    it.effect("knows neither numbers nor repositories that are not there", () =>
      Effect.gen(function*() {
        const { options, pulls, repo } = yield* opened
        const nobody = RepoName.make("nobody/nothing-of-that-name")
        for (
          const use of [() => pulls.diff, () => pulls.content, () => pulls.close, () => (repo: RepoName, n: number) =>
            pulls.merge(repo, n, options)]
        ) {
          assert.strictEqual(yield* reasonOf<unknown, unknown, never>(use()(repo, 99)), "unknown number")
          assert.strictEqual(yield* reasonOf<unknown, unknown, never>(use()(nobody, 1)), "unknown repository")
        }
      }))
  })
