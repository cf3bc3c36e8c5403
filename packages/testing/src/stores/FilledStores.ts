/**
 * The stores of a service, some of them given and the others in memory. Those in memory agree with the given ones: they ask the given
 * accounts and feeds, and checkpoints and setups follow a given store of sandboxes.
 */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import type { Ids } from "@slipway/domain/ids/Ids"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as AccessStoreMemory from "@slipway/domain/memory/access/AccessStoreMemory"
import * as SpendingMemory from "@slipway/domain/memory/models/SpendingMemory"
import * as MemoryNotifications from "@slipway/domain/memory/partner/MemoryNotifications"
import * as PartnerStoreMemory from "@slipway/domain/memory/partner/PartnerStoreMemory"
import * as WebhookStoreMemory from "@slipway/domain/memory/partner/WebhookStoreMemory"
import * as SandboxRows from "@slipway/domain/memory/sandbox/SandboxRows"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { type Recorded, SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import { Workers } from "@slipway/domain/sandbox/ports/Workers"
import { created, dateOf } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import type { Hints } from "@slipway/domain/store/Hints"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scheduler from "effect/Scheduler"
import { type Versions, writtenByVersions } from "./Versions.ts"

/** The stores of a service. */
export type Stores =
  | AccessStore
  | Checkpoints
  | Leases
  | Maintenance
  | MemberStore
  | PartnerStore
  | SandboxStore
  | Setups
  | Spending
  | WebhookStore
  | Workers

/**
 * A layer of any of {@link Stores}, which may ask for any that it does not provide. `SandboxStore`, `Leases` and `Maintenance` come
 * together, because they share their data; so do `MemberStore` with `AccessStore`, and `Checkpoints` and `Setups` with `SandboxStore`.
 * A `WebhookStore` without a `SandboxStore` has no notifications, except those in the store in memory that it wraps.
 */
export type GivenStores = Layer.Layer<never, never, Stores | Hints | Ids>

/** The given stores cannot be combined with stores in memory. */
export class StoresDoNotFit extends Error {
  override readonly name = "StoresDoNotFit"
}

const all = {
  AccessStore,
  Checkpoints,
  Leases,
  Maintenance,
  MemberStore,
  PartnerStore,
  SandboxStore,
  Setups,
  Spending,
  WebhookStore,
  Workers
}
type Name = keyof typeof all
const names = Object.keys(all) as ReadonlyArray<Name>

/** Which stores a store shares its data with: it can be given only with them. */
const TOGETHER: Partial<Record<Name, ReadonlyArray<Name>>> = {
  SandboxStore: ["Leases", "Maintenance"],
  Leases: ["SandboxStore", "Maintenance"],
  Maintenance: ["SandboxStore", "Leases"],
  Checkpoints: ["SandboxStore"],
  Setups: ["SandboxStore"],
  MemberStore: ["AccessStore"]
}

/** Why these cannot be given alone; `null`: they can. */
const misfitOf = (given: ReadonlySet<Name>): string | null => {
  if (given.size === 0) return `The layer provides none of the stores ${names.join(", ")}.`
  for (const name of given) {
    const missing = TOGETHER[name]?.filter((other) => !given.has(other)) ?? []
    if (missing.length === 0) continue
    return `The layer provides ${name} without ${missing.join(" and ")}, which share its data: provide them together, or none of them.`
  }
  return null
}

/** Stands for a store that is chosen later. */
const later = <I, S extends object>(tag: Context.Key<I, S>, chosen: { stores: Context.Context<never> | null }): S =>
  new Proxy<S>(Object.create(null), {
    get: (_, name) => {
      if (chosen.stores === null) throw new StoresDoNotFit(`${tag.key} is asked before all layers are built: ask it in a call of a port.`)
      return Reflect.get(Context.getUnsafe(chosen.stores, tag), name)
    }
  })

/** No other fiber runs in between, as in a transaction. */
const atOnce = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.provideService(self, Scheduler.PreventSchedulerYield, true)

/** The given store of sandboxes, of which every write is noted in rows in memory and in the queue of notifications. */
const noted = (
  store: SandboxStore["Service"],
  rows: SandboxRows.SandboxRows,
  notifications: MemoryNotifications.MemoryNotifications["Service"]
): SandboxStore["Service"] => {
  const record = (
    row: SandboxRows.Row,
    events: ReadonlyArray<SandboxEvent>,
    { at, fence, now }: { readonly at: DateTime.Utc; readonly now: DateTime.Utc; readonly fence: number | null }
  ) => {
    const before = row.sandbox
    const entries = SandboxRows.record(row, events, at, now, fence)
    notifications.write(row.sandbox, entries, { at: dateOf(before, at), now }, (seq) => row.log.some((entry) => entry.seq === seq))
  }
  const note = ({ events, sandbox: { id, lastSeq } }: Recorded, at: DateTime.Utc, fence: number | null) =>
    Effect.map(DateTime.now, (now) => {
      const row = rows.rows.get(id)
      // A given store may write to the one in memory, which has noted it then.
      if (row !== undefined && row.sandbox.lastSeq < lastSeq) record(row, events, { at, now, fence })
    })
  return SandboxStore.of({
    ...store,
    create: (request) =>
      atOnce(Effect.tap(store.create(request), ({ replayed }) => {
        const { creation } = request
        if (replayed || rows.rows.has(creation.id)) return Effect.void
        rows.rows.set(creation.id, SandboxRows.newRow(creation))
        return Effect.map(DateTime.now, (now) => {
          record(rows.rows.get(creation.id)!, created(creation), { at: creation.createdAt, now, fence: null })
        })
      })),
    command: (key, command, now, keyed, trace) =>
      atOnce(Effect.tap(store.command(key, command, now, keyed, trace), (recorded) => note(recorded, now, null))),
    delete: (key, now) =>
      atOnce(Effect.tap(store.delete(key, now), () =>
        Effect.sync(() => {
          const row = rows.rows.get(key.id)
          if (row !== undefined) SandboxRows.bury(rows, row, now)
          notifications.forget(key.id)
        }))),
    change: (id, by, decide, now) =>
      atOnce(Effect.tap(
        store.change(id, by, decide, now),
        (recorded) => note(recorded, now, by !== "policy" && "fence" in by ? by.fence : null)
      ))
  })
}

/** The given leases, whose fences checkpoints in memory follow, and setups over the given store of sandboxes. */
const followed = (
  stores: Context.Context<SandboxStore | Leases | Setups>,
  rows: SandboxRows.SandboxRows
): Context.Context<Leases | Setups> => {
  const [store, leases, setups] = [Context.get(stores, SandboxStore), Context.get(stores, Leases), Context.get(stores, Setups)]
  return Context.make(
    Leases,
    Leases.of({
      ...leases,
      take: (by, room) =>
        Effect.tap(leases.take(by, room), (taken) =>
          Effect.sync(() => {
            for (const { lease } of taken) {
              const row = rows.rows.get(lease.sandboxId)
              if (row !== undefined) row.fence = lease.fence
            }
          }))
    })
  ).pipe(
    Context.add(
      Setups,
      Setups.of({
        ...setups,
        // The record goes with the events.
        find: (id) => Effect.flatMap(store.purged(id), (purged) => purged > 0 ? Effect.succeed(null) : setups.find(id))
      })
    )
  )
}

/** A question to each store: a store that waits is found here, and not by calls of which nothing comes. */
const answersAtOnce = Effect.orDie(Effect.all([
  AccessStore.use((access) => access.listGrants),
  SandboxStore.use((store) => store.purged(SandboxId.make("c_aaaaaaaaaaaa"))),
  Maintenance.use((maintenance) => maintenance.now),
  PartnerStore.use((partners) => partners.feed("", 0, 1)),
  WebhookStore.use((webhooks) => webhooks.list("")),
  Spending.use((spending) => spending.of(""))
]))

/**
 * All stores: those of `given`, and the others in memory. Dies with {@link StoresDoNotFit}. `given`: `null` for none. `versions`: if the
 * store of sandboxes is in memory, processes of an earlier version write their rows in its shape.
 */
export const layer = (given: GivenStores | null, versions: Versions): Layer.Layer<Stores, never, Hints | Ids> =>
  Layer.effectContext(Effect.gen(function*() {
    const chosen: { stores: Context.Context<Stores> | null } = { stores: null }
    const rows = SandboxRows.make()
    const accounts = yield* Layer.build(AccessStoreMemory.layer)
    const notifications = MemoryNotifications.make()
    const asked = Context.add(
      given === null
        ? accounts
        : accounts.pipe(Context.add(AccessStore, later(AccessStore, chosen)), Context.add(MemberStore, later(MemberStore, chosen))),
      MemoryNotifications.MemoryNotifications,
      notifications
    )
    const partners = yield* Effect.provide(Layer.build(PartnerStoreMemory.layer), asked)
    // A given store of sandboxes in memory tells the partners of their tasks too.
    const tasks = PartnerStoreMemory.MemoryTasks
    const own = yield* Effect.provide(
      Layer.build(Layer.merge(SandboxStoreMemory.over(rows), SpendingMemory.layer)),
      Context.add(asked, tasks, given === null ? Context.get(partners, tasks) : later(tasks, chosen))
    )
    const feeds = given === null
      ? Context.make(PartnerStore, Context.get(partners, PartnerStore))
      : Context.make(PartnerStore, later(PartnerStore, chosen))
    const webhooks = yield* Effect.provide(Layer.build(WebhookStoreMemory.layer), Context.merge(asked, feeds))
    const memory = Context.mergeAll(accounts, partners, own, Context.pick(WebhookStore)(webhooks))
    const shaped = (stores: Context.Context<Stores>, isGiven: boolean) =>
      Context.add(stores, SandboxStore, writtenByVersions(Context.get(stores, SandboxStore), isGiven ? null : rows, versions.earlierRows))
    if (given === null) return shaped(memory, false)
    const built: Context.Context<never> = yield* Effect.provide(
      Layer.build(given),
      // Stores in memory that are given share it with those that are not.
      Context.add(memory, MemoryNotifications.MemoryNotifications, notifications)
    )
    const isGiven = (name: Name) => Option.isSome(Context.getOption(built, all[name] as Context.Key<unknown, unknown>))
    const provided = new Set(names.filter(isGiven))
    const misfit = misfitOf(provided)
    if (misfit !== null) return yield* Effect.die(new StoresDoNotFit(misfit))
    const merged = Context.merge(memory, built) as Context.Context<Stores>
    const hasAll = (...all: ReadonlyArray<Name>) => all.every((name) => provided.has(name))
    const followers = hasAll("SandboxStore") && !hasAll("Checkpoints", "Setups") ? followed(merged, rows) : Context.empty()
    const isNoted = hasAll("SandboxStore") && !hasAll("Checkpoints", "Setups", "WebhookStore")
    const store = Context.get(merged, SandboxStore)
    const together = Context.add(Context.merge(merged, followers), SandboxStore, isNoted ? noted(store, rows, notifications) : store)
    chosen.stores = shaped(together, provided.has("SandboxStore"))
    yield* Effect.provide(answersAtOnce, chosen.stores)
    return chosen.stores
  }))
