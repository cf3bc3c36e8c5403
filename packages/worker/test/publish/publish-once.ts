/** A worker that carries out one publication or one round of feedback, to be killed at a step. Argument: {@link Order} as JSON. */
import type { Leased } from "@slipway/domain/sandbox/ports/Leases"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { Effect as Effects } from "effect"
import { join } from "node:path"
import { take, takeOnDisk } from "./Steps.ts"
import type { Settings } from "./Worker.ts"

export interface Order {
  readonly control: string
  readonly settings: Settings
  readonly lease: Leased["lease"]
  readonly grantId: string
  /** It is over, and has moved so. `null`: it runs. */
  readonly finished: { readonly moved: Leased["moved"] } | null
  /** The tree of a sandbox that gets feedback; `null`: it only publishes. */
  readonly round: { readonly tree: string } | null
}

const { control, finished, grantId, lease, round, settings } = JSON.parse(process.argv[2] ?? "") as Order
const begin = takeOnDisk(control, join(settings.directory, "trees", "sandboxes"))

// Only now, so that they get the functions that count.
const { Effect, Layer, Stream } = await import("effect")
const { SandboxHost } = await import("@slipway/domain/sandbox/ports/SandboxHost")
const { SandboxStore } = await import("@slipway/domain/sandbox/ports/SandboxStore")
const { FeedbackWatches } = await import("@slipway/domain/publishing/ports/FeedbackWatches")
const { PullRequestFeedback } = await import("@slipway/domain/source/ports/PullRequestFeedback")
const { SourceHost } = await import("@slipway/domain/source/ports/SourceHost")
const { portsLayer, roundOnce, useCase } = await import("./Round.ts")
const { serve } = await import("./Finished.ts")
const { boxesLayer, hostLayer, machineLayer, publishOnce, storeLayer } = await import("./Worker.ts")

const step = (name: string) => Effect.sync(() => take(control, name))
/** Steps before and after the call, without an observer. */
const around = <A extends ReadonlyArray<unknown>, B, E, R>(name: string, call: (...args: A) => Effects.Effect<B, E, R>) => (...args: A) =>
  step(`${name} is to come`).pipe(Effect.andThen(call(...args)), Effect.tap(step(`${name} is done`)))

const store = Layer.effect(
  SandboxStore,
  Effect.map(SandboxStore, (store) => ({ ...store, change: around("a commit to the database", store.change) as typeof store.change }))
)
const counting = (box: Box): Box => ({
  ...box,
  spawn: (options) =>
    Effect.map(
      around(`a process in the box, ${options.command}`, box.spawn)(options),
      (process) => ({
        ...process,
        stdout: Stream.concat(process.stdout, Stream.drain(Stream.fromEffect(step("all is read from the box"))))
      })
    )
})
const boxes = Layer.effect(
  SandboxHost,
  Effect.map(SandboxHost, (host) =>
    SandboxHost.of({
      ...host,
      provision: (options) => Effect.map(host.provision(options), counting),
      visit: (place) => Effect.map(host.visit(place), counting)
    }))
)
const host = Layer.effect(
  SourceHost,
  Effect.map(SourceHost, (host) =>
    SourceHost.of({
      ...host,
      remote: around("asking where to push", host.remote),
      findOpenPullRequest: around("looking for the pull request", host.findOpenPullRequest),
      openDraftPullRequest: around("opening the pull request", host.openDraftPullRequest),
      pullRequestPushed: around("telling of the push", host.pullRequestPushed)
    }))
)

const watches = Layer.effect(
  FeedbackWatches,
  Effect.map(FeedbackWatches, (watches) => ({
    ...watches,
    take: around("claiming looks", watches.take),
    record: around("recording the look", watches.record)
  }))
)
const feedback = Layer.effect(
  PullRequestFeedback,
  Effect.map(PullRequestFeedback, (feedback) => ({
    read: around("reading the comments", feedback.read),
    reply: around("replying", feedback.reply)
  }))
)

const privateKey = process.env["PRIVATE_KEY"] ?? ""
const work = Effect.gen(function*() {
  begin()
  if (round !== null) return yield* Effect.provide(roundOnce(lease.sandboxId, grantId, round.tree), useCase)
  yield* finished === null ? publishOnce(lease, grantId) : serve(lease, grantId, finished.moved)
})
await work.pipe(
  Effect.provide(
    Layer.mergeAll(store, host, Layer.merge(watches, feedback).pipe(Layer.provideMerge(portsLayer(settings, privateKey)))).pipe(
      Layer.provideMerge(hostLayer(settings, privateKey)),
      Layer.provideMerge(machineLayer(settings, boxes.pipe(Layer.provide(boxesLayer(settings))))),
      Layer.provideMerge(storeLayer(settings))
    )
  ),
  Effect.runPromise
)
