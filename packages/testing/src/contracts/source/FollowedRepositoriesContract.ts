/**
 * The rules that every `FollowedRepositories` must keep. An adapter proves itself by running this suite against its layer; a rule that is
 * missing here is not part of the port. Each test has repositories and a day of its own, so that it can run on one database.
 */
import { CLAIM_TIME, type ClaimedRepository, FollowedRepositories } from "@slipway/domain/source/ports/FollowedRepositories"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"

let worlds = 0

/** Names that no other test has, and a time before which no repository of other tests is due. */
const world = Effect.gen(function*() {
  const store = yield* FollowedRepositories
  const name = `Acme/World-${++worlds}-${yield* Effect.sync(() => performance.timeOrigin)}`
  // Each test is a year before the one before it.
  const start = DateTime.makeUnsafe(Date.UTC(2900 - worlds, 0, 1))
  const [one, two] = [RepoName.make(`${name}-one`), RepoName.make(`${name}-two`)]
  const at = (seconds: number) => DateTime.add(start, { seconds })
  const claim = (seconds: number, limit = 100) =>
    Effect.map(store.claim(at(seconds), limit), (all) => all.filter(({ repo }) => repo.toLowerCase().startsWith(name.toLowerCase())))
  const end = (claimed: ClaimedRepository | undefined, seconds: number, more: Partial<Parameters<typeof store.record>[1]> = {}) =>
    claimed === undefined
      ? Effect.die(new Error("nothing was claimed"))
      : store.record(claimed, { cursor: "c", failures: 0, dueAt: at(seconds), presentName: claimed.repo, ...more })
  const forget = Effect.forEach([one, two], (repo) => Effect.forEach(["a", "b"], (reason) => store.unfollow(repo, reason)), {
    discard: true
  })
  yield* Effect.addFinalizer(() => Effect.ignore(forget))
  return { store, one, two, at, claim, end }
})

const names = (claimed: ReadonlyArray<ClaimedRepository>) => claimed.map(({ repo }) => repo)

const following = (it: Writer<FollowedRepositories>) => {
  it.effect("a repository is due at once when it is followed, and has no cursor", () =>
    Effect.gen(function*() {
      const { at, claim, one, store } = yield* world
      yield* store.follow(one, "a", at(0))
      assert.deepStrictEqual(yield* claim(-1), [])
      const [claimed] = yield* claim(0)
      assert.deepInclude(claimed, { repo: one, cursor: null, followedAt: at(0), heardAt: null, failures: 0 })
    }))

  it.effect("following again, in another case of letters or for another reason, changes neither name nor cursor nor time", () =>
    Effect.gen(function*() {
      const { at, claim, end, one, store } = yield* world
      yield* store.follow(one, "a", at(0))
      assert.isTrue(yield* end((yield* claim(0))[0], 60))
      yield* store.follow(RepoName.make(one.toUpperCase()), "a", at(10))
      yield* store.follow(one, "b", at(10))
      assert.deepStrictEqual(yield* claim(59), [])
      const claimed = yield* claim(60)
      assert.lengthOf(claimed, 1)
      assert.deepInclude(claimed[0], { repo: one, cursor: "c", followedAt: at(0) })
    }))

  it.effect("is followed until the last reason is taken back, and begins anew after that", () =>
    Effect.gen(function*() {
      const { at, claim, end, one, store } = yield* world
      yield* store.follow(one, "a", at(0))
      yield* store.follow(one, "a", at(0))
      yield* store.follow(one, "b", at(0))
      assert.isTrue(yield* end((yield* claim(0))[0], 60))
      yield* store.unfollow(one, "another")
      yield* store.unfollow(RepoName.make(one.toLowerCase()), "b")
      yield* store.unfollow(one, "b")
      const [claimed] = yield* claim(60)
      assert.deepInclude(claimed, { repo: one, cursor: "c" })
      yield* store.unfollow(one, "a")
      assert.isFalse(yield* end(claimed, 120))
      assert.deepStrictEqual(yield* claim(9999), [])
      yield* store.follow(one, "a", at(70))
      assert.deepInclude((yield* claim(70))[0], { cursor: null, followedAt: at(70) })
      assert.isFalse(yield* end(claimed, 120))
    }))
}

const claims = (it: Writer<FollowedRepositories>) => {
  it.effect("gives a due repository to one caller, the longest due first, and no more than asked for", () =>
    Effect.gen(function*() {
      const { at, claim, one, store, two } = yield* world
      yield* store.follow(two, "a", at(2))
      yield* store.follow(one, "a", at(1))
      assert.deepStrictEqual(names(yield* claim(2, 1)), [one])
      assert.deepStrictEqual(names(yield* claim(2)), [two])
      assert.deepStrictEqual(yield* claim(2), [])
    }))

  it.effect("many callers at once get each repository once", () =>
    Effect.gen(function*() {
      const { at, claim, one, store, two } = yield* world
      yield* store.follow(one, "a", at(0))
      yield* store.follow(two, "a", at(0))
      const all = yield* Effect.forEach([1, 2, 3, 4], () => claim(0), { concurrency: "unbounded" })
      assert.deepStrictEqual(names(all.flat()).toSorted(), [one, two].toSorted())
    }))

  it.effect("keeps cursor and failures of a poll, and is due when it says", () =>
    Effect.gen(function*() {
      const { at, claim, end, one, store } = yield* world
      yield* store.follow(one, "a", at(0))
      assert.isTrue(yield* end((yield* claim(0))[0], 60, { cursor: "first", failures: 3 }))
      assert.deepStrictEqual(yield* claim(59), [])
      const [again] = yield* claim(60)
      assert.deepInclude(again, { cursor: "first", failures: 3 })
      assert.isTrue(yield* end(again, 61, { cursor: null }))
      assert.deepInclude((yield* claim(61))[0], { cursor: null, failures: 0 })
    }))

  it.effect("after the time of a claim another caller gets the repository, and the first can record nothing", () =>
    Effect.gen(function*() {
      const { at, claim, end, one, store } = yield* world
      yield* store.follow(one, "a", at(0))
      const [first] = yield* claim(0)
      const later = Duration.toSeconds(CLAIM_TIME)
      assert.deepStrictEqual(yield* claim(later - 1), [])
      const [second] = yield* claim(later)
      assert.notStrictEqual(second?.fence, first?.fence)
      assert.isFalse(yield* end(first, later, { cursor: "of the first" }))
      assert.isTrue(yield* end(second, later, { cursor: "of the second" }))
      assert.isFalse(yield* end(second, later, { cursor: "once more" }))
      assert.deepInclude((yield* claim(later))[0], { cursor: "of the second" })
    }))
}

const renames = (it: Writer<FollowedRepositories>) => {
  it.effect("remembers when the host told of it by itself, by its name in any case of letters", () =>
    Effect.gen(function*() {
      const { at, claim, one, store, two } = yield* world
      yield* store.follow(one, "a", at(0))
      assert.deepStrictEqual(yield* store.heard(RepoName.make(one.toUpperCase()), at(5)), [one])
      assert.deepStrictEqual(yield* store.heard(two, at(5)), [])
      assert.deepInclude((yield* claim(6))[0], { repo: one, heardAt: at(5) })
    }))

  it.effect("a renamed repository is followed by its earlier name, and found by its new one alone", () =>
    Effect.gen(function*() {
      const { at, claim, end, one, store, two } = yield* world
      yield* store.follow(one, "a", at(0))
      yield* store.renamed(RepoName.make(one.toLowerCase()), RepoName.make(two.toUpperCase()))
      yield* store.renamed(one, two)
      assert.deepStrictEqual(yield* store.heard(one, at(1)), [])
      assert.deepStrictEqual(yield* store.heard(two, at(1)), [one])
      const [claimed] = yield* claim(1)
      assert.strictEqual(claimed?.repo, one)
      assert.isTrue(yield* end(claimed, 60, { presentName: one }))
      assert.deepStrictEqual(yield* store.heard(two, at(1)), [])
      assert.isTrue(yield* end((yield* claim(60))[0], 120, { presentName: RepoName.make(two.toUpperCase()) }))
      assert.deepStrictEqual(yield* store.heard(two, at(1)), [one])
      yield* store.follow(two, "a", at(1))
      assert.deepStrictEqual((yield* store.heard(two, at(1))).toSorted(), [one, two].toSorted())
    }))
}

/** For every store. */
export const suite = (name: string, layer: Layer.Layer<FollowedRepositories, unknown>) =>
  define(`FollowedRepositories (${name})`, layer, (it) => {
    following(it)
    claims(it)
    renames(it)
  })
