/**
 * The use cases for programs without Effect: promises, plain JSON, an async iterable. A promise rejects with the error of the use case,
 * identified by its `_tag`: `InvalidRequest`, `SandboxNotFound`, `TurnActive`, ….
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { drawnFrom } from "../ids/DrawnIds.ts"
import { Ids } from "../ids/Ids.ts"
import { SandboxId } from "../ids/SandboxId.ts"
import { type Catalogue, ModelCatalogue } from "../models/schema/ModelCatalogue.ts"
import { bytesOf, SandboxStore, summaryOf, topicsOf } from "../sandbox/ports/SandboxStore.ts"
import type { ApprovalDecision } from "../sandbox/rules/Approval.ts"
import type { CommandResult } from "../sandbox/rules/Command.ts"
import type { WhenBusy } from "../sandbox/rules/MessageQueue.ts"
import type { SandboxStatus, WireEvent } from "../sandbox/rules/SandboxEvent.ts"
import type { FileRefs } from "../sandbox/schema/PromptFile.ts"
import { Sandbox } from "../sandbox/schema/Sandbox.ts"
import * as Requests from "../sandbox/usecases/Requests.ts"
import { Sandboxes } from "../sandbox/usecases/Sandboxes.ts"
import { SandboxEvents } from "../sandbox/usecases/SandboxEvents.ts"
import type { RepoName } from "../source/schema/RepoRef.ts"
import { Hints, makeLocal, type Topic, WORK } from "../store/Hints.ts"
import { mayBeCut, nextPage, pageOf } from "../store/Page.ts"
import type { StoreUnavailable } from "../store/StoreUnavailable.ts"
import { reader } from "../text/InvalidRequest.ts"
import { Timestamp } from "../time/Timestamp.ts"
import * as Administration from "./Administration.ts"
import { type Caller, principalOf } from "./Caller.ts"
import * as Hooks from "./Hooks.ts"
import type { Run } from "./Promised.ts"

export type { Administration, PromisedAccess, PromisedPartners, PromisedWebhooks } from "./Administration.ts"
export type { Caller } from "./Caller.ts"
export type { Denial, EventHandler } from "./Hooks.ts"

type Promised<Service> = {
  readonly [K in keyof Service]: Service[K] extends (...given: infer Given) => Effect.Effect<infer A, infer _E>
    ? (...given: Given) => Promise<A>
    : never
}

/**
 * The `SandboxStore` port as promises. A rejection with a `_tag` must be an error that the port's method declares, and reaches the
 * caller unchanged. Any other rejection is a bug and also reaches the caller. The store sends no hints: this module sends them.
 */
export type PromisedStore = Omit<Promised<SandboxStore["Service"]>, "checkpointLog" | "publishers" | "summaries" | "traces">

/** The parts that an embedder provides. */
export interface Options extends Hooks.Hooks {
  /**
   * Your own store, or a layer that needs at most `Hints`, for a start `SandboxStoreMemory.layer` of
   * `@slipway/domain/memory/sandbox/SandboxStoreMemory`.
   */
  readonly store: PromisedStore | Layer.Layer<SandboxStore, unknown, Hints>
  /** The source of ids: the platform's Web Crypto, `crypto`. For tests, a seed that repeats the same ids; such ids can be guessed. */
  readonly ids: { getRandomValues(bytes: Uint8Array<ArrayBuffer>): unknown } | { readonly seed: string | number }
  /** The clock, in milliseconds or as a `Date`. Absent: the machine's clock. */
  readonly clock?: { now(): number | { getTime(): number } } | undefined
  /**
   * Called once with a callback for changes of other processes, which takes a sandbox id. Returns the function that stops it. Absent:
   * such changes are seen within a second.
   */
  readonly hints?: ((changed: (sandboxId: string) => void) => () => void) | undefined
  /** The models that a creation may choose. Absent: the model that needs no account. */
  readonly models?: Catalogue | undefined
}

/** The parts that an embedder with all stores provides. */
export interface StoresOptions<Stores> extends Pick<Options, "beforeCreate" | "clock" | "models" | "onEvent"> {
  /**
   * One layer of `SandboxStore` and other stores, with `Hints` and `Ids`: all in memory is `layer()` of `@slipway/domain/memory/Stores`.
   * `access`, `partners` and `webhooks` are there if the layer has their ports.
   */
  readonly stores: Layer.Layer<Stores | SandboxStore | Hints | Ids, unknown>
}

/** A sandbox as plain JSON. Times are ISO 8601 in UTC. */
export type SandboxJson = typeof Sandbox.Encoded

/** The idempotency key of a creating request: 1 to 255 printable ASCII characters. Equal requests with the same key are executed once. */
export interface KeyedOptions {
  readonly idempotencyKey?: string | undefined
}

/** Options of a message. */
export interface MessageOptions extends KeyedOptions {
  /** The treatment of the message while a turn is active. Absent: `reject`. */
  readonly whenBusy?: WhenBusy | undefined
  /** Uploaded files of the grant, at most 10. */
  readonly files?: FileRefs | undefined
}

const Position = Schema.Struct({ createdAt: Timestamp, id: SandboxId })

/** A page of a list. */
export interface ListOptions {
  /** At least 1; 100 if absent. */
  readonly limit?: number | undefined
  readonly status?: SandboxStatus | undefined
  readonly repo?: RepoName | undefined
  /** `next` of the previous page. */
  readonly after?: typeof Position.Encoded | null | undefined
}

/** Requests, prompts and ids may have any type. An invalid value rejects with `InvalidRequest`. */
export interface Slipway {
  /** `request`: the body of a creation in the HTTP API. `replayed`: an equal request with this key was executed before. */
  create(by: Caller, request: unknown, options?: KeyedOptions): Promise<{ readonly sandbox: SandboxJson; readonly replayed: boolean }>
  /**
   * Creates a sandbox of the same repositories that starts as a checkpoint of this one. `request`: the body of a fork in the HTTP API.
   * The store decides which checkpoints are kept.
   */
  fork(by: Caller, id: string, request: unknown, options?: KeyedOptions): Promise<{
    readonly sandbox: SandboxJson
    readonly replayed: boolean
  }>
  get(by: Caller, id: string): Promise<SandboxJson>
  /** Newest first. `next`: the start of the next page; `null`: this is the last page. */
  list(by: Caller, options?: ListOptions): Promise<{
    readonly sandboxes: ReadonlyArray<SandboxJson>
    readonly next: typeof Position.Encoded | null
  }>
  /** Starts the next turn of a running sandbox. While a turn is active the message is refused, unless `whenBusy` queues it. */
  sendMessage(by: Caller, id: string, prompt: unknown, options?: MessageOptions): Promise<CommandResult & { readonly turnId: string }>
  /** Withdraws a queued message. `messageId` is the `turnId` that sending it returned. */
  cancelMessage(by: Caller, id: string, messageId: string): Promise<CommandResult>
  terminate(by: Caller, id: string): Promise<CommandResult>
  interrupt(by: Caller, id: string): Promise<CommandResult>
  /** Deletes an ended sandbox and its data for good. Check first that the caller may. */
  delete(by: Caller, id: string): Promise<void>
  /** Restores trees and conversation to a checkpoint, between turns. Needs a layer as store that also has `Checkpoints`. */
  restore(by: Caller, id: string, checkpoint: number): Promise<CommandResult>
  /** Gives the sandbox another title: 1 to 120 characters. */
  rename(by: Caller, id: string, title: string): Promise<CommandResult>
  /** The first decision of an approval wins. `scope`: other requests of its kind that it also approves. */
  approve(by: Caller, id: string, approvalId: string, options?: Pick<ApprovalDecision, "scope">): Promise<CommandResult>
  /** `reason`: the explanation for the agent, 1 to 2000 characters. */
  deny(by: Caller, id: string, approvalId: string, options?: Pick<ApprovalDecision, "reason">): Promise<CommandResult>
  /** Answers what an agent asked (`question.asked`), or dismisses it: `{ answers: { id: { labels, text } } }` or `{ dismiss: true }`. */
  answer(by: Caller, id: string, questionId: string, reply: unknown): Promise<CommandResult>
  /** Every event after `after` (0: all), as it comes. Ends after the last event of an ended sandbox, and when this object is closed. */
  events(by: Caller, id: string, options?: { readonly after?: number | undefined }): AsyncIterable<WireEvent>
  /** Ends all streams of events and releases the store. Until then the process stays alive. */
  close(): Promise<void>
}

/** The interval at which readers look for changes without a hint. */
const LOOK_AGAIN = "1 second"

const clockOf = (now: () => number | { getTime(): number }) => (machine: Clock.Clock): Clock.Clock => {
  const millis = () => {
    const time = now()
    return typeof time === "number" ? time : time.getTime()
  }
  const nanos = () => BigInt(Math.round(millis())) * 1_000_000n
  return {
    currentTimeMillisUnsafe: millis,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: () => machine.monotonicTimeNanosUnsafe(),
    monotonicTimeNanos: machine.monotonicTimeNanos,
    sleep: (duration) => machine.sleep(duration)
  }
}

const idsOf = (source: Options["ids"]) => {
  if ("seed" in source) {
    return Random.withSeed(Effect.map(Random.Random, (random) => drawnFrom(() => random.nextDoubleUnsafe())), source.seed)
  }
  const bytes = new Uint8Array(8)
  const view = new DataView(bytes.buffer)
  return Effect.succeed(drawnFrom(() => {
    source.getRandomValues(bytes)
    // A double has 53 bits of fraction.
    return (view.getUint32(0) * 2 ** 21 + (view.getUint32(4) >>> 11)) / 2 ** 53
  }))
}

const hintsOf = Effect.fnUntraced(function*(subscribe: Options["hints"]) {
  const local = makeLocal()
  if (subscribe !== undefined) {
    yield* Effect.acquireRelease(
      Effect.sync(() => subscribe((sandboxId: Topic) => Effect.runSync(local.publish([sandboxId])))),
      (stop) => Effect.sync(stop)
    )
  }
  const lookAgain = Effect.suspend(() => local.publish(Array.from(local.topics())))
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(LOOK_AGAIN), lookAgain)))
  return Hints.of(local)
})

const isTagged = (error: unknown) => typeof error === "object" && error !== null && "_tag" in error && typeof error._tag === "string"

/** `E`: the errors that the port's method declares. The store's rejections are not checked against them. */
const asked = <A, E>(ask: () => Promise<A>): Effect.Effect<A, E> =>
  Effect.catch(
    Effect.tryPromise({ try: ask, catch: (error) => error }),
    (error) => isTagged(error) ? Effect.fail(error as E) : Effect.die(error)
  )

const storeOf = (store: PromisedStore) =>
  Effect.map(Hints, (hints) =>
    SandboxStore.of({
      create: (request) =>
        Effect.tap(
          asked(() => store.create(request)),
          ({ replayed, sandbox }) => replayed ? Effect.void : hints.publish([sandbox.id, WORK])
        ),
      replay: (grantId, keyed, forkOf) => asked(() => store.replay(grantId, keyed, forkOf)),
      find: (key) => asked(() => store.find(key)),
      list: (grantId, query) => asked(() => store.list(grantId, query)),
      summaries: Effect.fnUntraced(function*(grantId, query) {
        const found: Array<Sandbox> = []
        // Pages of the store are smaller than pages of summaries.
        for (let after = query.after; found.length < query.limit;) {
          const page = yield* asked<ReadonlyArray<Sandbox>, StoreUnavailable>(() =>
            store.list(grantId, { ...query, after, limit: query.limit - found.length })
          )
          found.push(...page)
          after = page.at(-1) ?? null
          if (after === null || !mayBeCut(page, bytesOf.sandbox)) break
        }
        return pageOf(found.map(summaryOf), query.limit, bytesOf.summary)
      }),
      log: (id, after, limit) => asked(() => store.log(id, after, limit)),
      // Only workers call this, and an embedder of the domain runs none.
      checkpointLog: () => Effect.succeed([]),
      messages: (id, after, limit) => asked(() => store.messages(id, after, limit)),
      command: (key, command, now, keyed) =>
        Effect.tap(asked(() => store.command(key, command, now, keyed)), (recorded) => hints.publish(topicsOf(recorded))),
      change: (id, by, decide, now) =>
        Effect.tap(asked(() => store.change(id, by, decide, now)), (recorded) => hints.publish(topicsOf(recorded))),
      delete: (key, now) => Effect.tap(asked(() => store.delete(key, now)), () => hints.publish([key.id])),
      // Only workers continue traces, and an embedder of the domain runs none.
      traces: () => Effect.succeed({ creation: null, turn: null }),
      // Only publications ask, and an embedder of the domain has none.
      publishers: () => Effect.succeed([]),
      approvals: (id, approvalIds) => asked(() => store.approvals(id, approvalIds)),
      questions: (id, questionIds) => asked(() => store.questions(id, questionIds)),
      purged: (id) => asked(() => store.purged(id))
    }))

/** The object was closed before the call, which did nothing. {@link open} another one. */
export class SlipwayClosed extends Data.TaggedError("SlipwayClosed") {
  override readonly message = "This Slipway object was closed, so the call did nothing. Open another one."
}

const encode = Schema.encodeSync(Sandbox)
const encodePosition = Schema.encodeSync(Position)
const readId = reader(SandboxId, "sandboxId")
const readPosition = reader(Schema.NullOr(Position), "after")

/** The use cases, and the stores that a worker in this process shares. */
export type Opened<Stores> = Slipway & Administration.Administration<Stores> & {
  /** The open stores, for `start` of `@slipway/worker/promise`. They are released when this object is closed. */
  readonly stores: Layer.Layer<Stores | SandboxStore | Hints | Ids>
}

const oneStore = ({ hints, ids, store }: Options) =>
  ("create" in store ? Layer.effect(SandboxStore, storeOf(store)) : store).pipe(
    Layer.provideMerge(Layer.merge(Layer.effect(Hints, hintsOf(hints)), Layer.effect(Ids, idsOf(ids))))
  )

/** A page of at most `limit` sandboxes, less where more are too large to read at once. */
const listOf = Effect.fnUntraced(function*(
  sandboxes: Sandboxes["Service"],
  by: ReturnType<typeof principalOf>,
  { after, limit = 100, repo, status }: ListOptions
) {
  const position = yield* Effect.fromResult(readPosition(after ?? null))
  const { more, page } = yield* nextPage(
    limit,
    bytesOf.sandbox,
    (last, limit) => sandboxes.list(by, { after: last ?? position, limit, repo: repo ?? null, status: status ?? null })
  )
  return { sandboxes: page.map((sandbox) => encode(sandbox)), next: more === null ? null : encodePosition(more) }
})

/** Opens the use cases over a store, or over all stores. Rejects if a store cannot be opened. */
export function open(options: Options): Promise<Slipway>
export function open<Stores = never>(options: StoresOptions<Stores>): Promise<Opened<Stores>>
export async function open(options: Options | StoresOptions<never>): Promise<Slipway> {
  const { clock, models } = options
  const stores: Layer.Layer<SandboxStore | Hints | Ids, unknown> = "stores" in options ? options.stores : oneStore(options)
  const runtime = ManagedRuntime.make(
    Layer.mergeAll(Sandboxes.layer, SandboxEvents.layer, Administration.layer, Hooks.onEvent(options)).pipe(
      Layer.provide(Hooks.beforeCreate(options)),
      Layer.provideMerge(stores),
      Layer.provideMerge(models === undefined ? Layer.empty : Layer.succeed(ModelCatalogue, models)),
      Layer.provideMerge(clock === undefined ? Layer.empty : Layer.effect(Clock.Clock, Effect.map(Clock.Clock, clockOf(() => clock.now()))))
    )
  )
  const context = await runtime.context()
  const closing = Deferred.makeUnsafe<void>()
  const whileOpen = () => Deferred.isDoneUnsafe(closing) ? Effect.fail(new SlipwayClosed()) : Effect.void
  const run: Run = (effect) => Deferred.isDoneUnsafe(closing) ? Promise.reject(new SlipwayClosed()) : runtime.runPromise(effect)

  const sandboxes = Effect.runSync(Effect.provide(Sandboxes, context))
  const log = Effect.runSync(Effect.provide(SandboxEvents, context))
  const withId = <A, E>(id: string, use: (id: SandboxId) => Effect.Effect<A, E>) => run(Effect.flatMap(Effect.fromResult(readId(id)), use))
  const decide = (by: Caller, id: string, approvalId: string, decision: ApprovalDecision) =>
    withId(id, (id) =>
      Effect.flatMap(
        Effect.all([Requests.approvalId(approvalId), Requests.decision(decision)]),
        ([approvalId, decision]) => sandboxes.decideApproval(principalOf(by), id, approvalId, decision)
      ))
  const shown = Effect.map(({ replayed, sandbox }: { readonly sandbox: Sandbox; readonly replayed: boolean }) => ({
    sandbox: encode(sandbox),
    replayed
  }))

  const slipway: Slipway = {
    create: (by, request, { idempotencyKey } = {}) =>
      run(
        Effect.all([Requests.creation(request), Requests.idempotencyKey(idempotencyKey)]).pipe(
          Effect.flatMap(([request, key]) => sandboxes.create(principalOf(by), request, key)),
          shown
        )
      ),
    fork: (by, id, request, { idempotencyKey } = {}) =>
      withId(id, (id) =>
        Effect.all([Requests.fork(request), Requests.idempotencyKey(idempotencyKey)]).pipe(
          Effect.flatMap(([request, key]) => sandboxes.fork(principalOf(by), id, request, key)),
          shown
        )),
    get: (by, id) => withId(id, (id) => Effect.map(sandboxes.get(principalOf(by), id), encode)),
    list: (by, options = {}) => run(listOf(sandboxes, principalOf(by), options)),
    sendMessage: (by, id, prompt, { files = [], idempotencyKey, whenBusy = "reject" } = {}) =>
      withId(id, (id) =>
        Effect.flatMap(
          Requests.message(prompt, whenBusy, idempotencyKey, files),
          ([prompt, whenBusy, key, files]) => sandboxes.sendMessage(principalOf(by), id, prompt, key, whenBusy, files)
        )),
    cancelMessage: (by, id, messageId) =>
      withId(
        id,
        (id) => Effect.flatMap(Requests.messageId(messageId), (messageId) => sandboxes.cancelMessage(principalOf(by), id, messageId))
      ),
    terminate: (by, id) => withId(id, (id) => sandboxes.terminate(principalOf(by), id)),
    interrupt: (by, id) => withId(id, (id) => sandboxes.interrupt(principalOf(by), id)),
    delete: (by, id) => withId(id, (id) => sandboxes.delete(principalOf(by), id)),
    restore: (by, id, checkpoint) =>
      withId(
        id,
        (id) => Effect.flatMap(Requests.checkpoint(checkpoint), (checkpoint) => sandboxes.restore(principalOf(by), id, checkpoint))
      ),
    rename: (by, id, title) =>
      withId(id, (id) => Effect.flatMap(Requests.title(title), (title) => sandboxes.rename(principalOf(by), id, title))),
    approve: (by, id, approvalId, options) => decide(by, id, approvalId, { ...options, decision: "approve" }),
    deny: (by, id, approvalId, options) => decide(by, id, approvalId, { ...options, decision: "deny" }),
    answer: (by, id, questionId, reply) =>
      withId(id, (id) =>
        Effect.flatMap(
          Effect.all([Requests.questionId(questionId), Requests.questionReply(reply)]),
          ([questionId, reply]) => sandboxes.answerQuestion(principalOf(by), id, questionId, reply)
        )),
    events: (by, id, { after = 0 } = {}) =>
      whileOpen().pipe(
        Effect.andThen(Effect.fromResult(readId(id))),
        Effect.flatMap((id) => log.follow(principalOf(by), id, after)),
        Effect.map(({ frames }) => frames),
        Stream.unwrap,
        Stream.flatMap((frame) => Stream.fromIterable(frame._tag === "Entries" ? frame.entries : [])),
        Stream.map(({ wire }): WireEvent => JSON.parse(wire)),
        Stream.interruptWhen(Deferred.await(closing)),
        // Releasing the store first interrupts the streams that wait for it.
        Stream.catchCauseIf((cause) => Cause.hasInterruptsOnly(cause) && Deferred.isDoneUnsafe(closing), () => Stream.empty),
        Stream.toAsyncIterableWith(context)
      ),
    close: async () => {
      Deferred.doneUnsafe(closing, Effect.void)
      await runtime.dispose()
    }
  }
  const opened: Layer.Layer<SandboxStore | Hints | Ids> = Layer.succeedContext(context)
  return Object.assign(slipway, Administration.administration<never>(context, run), { stores: opened })
}
