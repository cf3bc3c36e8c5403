import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { type Account, Accounts, find } from "../src/ServerAccount.ts"

/** A machine with these accounts, to which more can be added or not. */
const machine = (accounts: Record<string, Account>, canCreate = true) =>
  Effect.provideServiceEffect(
    Accounts,
    Effect.sync(() => {
      const known = new Map(Object.entries(accounts))
      return {
        lookup: (name: string) => Effect.sync(() => known.get(name) ?? null),
        create: (name: string) => Effect.sync(() => canCreate && known.set(name, { uid: 900, gid: 900 }))
      }
    })
  )

const root = { uid: 0, gid: 0 }
const slipway = { uid: 998, gid: 997 }
const postgres = { uid: 101, gid: 104 }

describe("the server's account", () => {
  it.effect("is the one asked for", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* find("postgres"), postgres)
    }).pipe(machine({ slipway, postgres })))

  it.effect("is slipway before postgres", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* find(), slipway)
    }).pipe(machine({ slipway, postgres })))

  it.effect("is postgres when that is all there is", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* find(), postgres)
    }).pipe(machine({ postgres })))

  it.effect("is made when there is none", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* find(), { uid: 900, gid: 900 })
    }).pipe(machine({})))

  it.effect("is never root, nor another one than asked for", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* Effect.flip(find("root"))).reason, "NoAccount")
      assert.strictEqual((yield* Effect.flip(find("nobody-of-that-name"))).reason, "NoAccount")
    }).pipe(machine({ root, slipway })))

  it.effect("is missing when none can be made", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* Effect.flip(find())).reason, "NoAccount")
    }).pipe(machine({}, false)))

  it.live("is looked up on this machine", () =>
    Effect.gen(function*() {
      const { lookup } = yield* Accounts
      assert.deepStrictEqual(yield* lookup("root"), root)
      assert.isNull(yield* lookup("nobody-of-that-name"))
    }))
})
