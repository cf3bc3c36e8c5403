/** The processes that are measured, and rounds in which they take turns. */
import path from "node:path"
import type { Side } from "../Measurement.ts"
import { ROUNDS } from "../Rows.ts"
import { median, number } from "../Statistics.ts"
import * as Protocol from "./Protocol.ts"

export const CLIENTS = 16

export interface Server {
  readonly name: string
  readonly port: number
  readonly child: Protocol.Child
}

export const begin = async (
  name: string,
  module: string,
  options: unknown,
  execArgv: ReadonlyArray<string> = []
): Promise<Server> => {
  const { child, first } = await Protocol.start(path.join(import.meta.dirname, module), options, execArgv)
  return { name, child, port: Number(first) }
}

/** Processes until `use` is through with them. */
export const withServers = async <const A extends ReadonlyArray<Promise<Server>>, B>(
  starting: A,
  use: (...servers: { readonly [K in keyof A]: Awaited<A[K]> }) => Promise<B>
): Promise<B> => {
  try {
    return await use(...await Promise.all(starting))
  } finally {
    for (const started of await Promise.allSettled(starting)) if (started.status === "fulfilled") await started.value.child.stop()
  }
}

export const profiled = (profile: string | null): ReadonlyArray<string> =>
  profile === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`]

/** The processor time of a process during a sample, µs. */
export const cpuOf = async <A>({ child }: Server, use: () => Promise<A>): Promise<readonly [A, number]> => {
  const before = await child.ask<number>({ _tag: "Cpu" })
  const value = await use()
  return [value, await child.ask<number>({ _tag: "Cpu" }) - before]
}

/** Requests of a kind from 16 clients. */
export const load = async (server: Server, from: Protocol.Child, target: Protocol.Target, millis: number, connections = CLIENTS) => {
  const [{ p50, p99, requests, millis: took }, cpu] = await cpuOf(
    server,
    () => from.ask<Protocol.Loaded>({ _tag: "Load", port: server.port, target, connections, millis })
  )
  return { perSecond: requests / took * 1000, cpu: cpu / requests, p50, p99 }
}

/** All sides in each round; who begins changes, so that none always meets the leavings of the same one. */
export const takeTurns = async <A>(sides: ReadonlyArray<() => Promise<A>>, rounds = ROUNDS): Promise<ReadonlyArray<ReadonlyArray<A>>> => {
  const of = sides.map((): Array<A> => [])
  for (let round = 0; round < rounds; round++) {
    const order = sides.map((_, i) => (i + round) % sides.length)
    for (const i of order) of[i]?.push(await sides[i]!())
  }
  return of
}

export const side = <K extends string>(name: string, rounds: ReadonlyArray<Readonly<Record<K, number>>>, figure: K): Side => ({
  name,
  samples: rounds.map((round) => round[figure])
})

/** Medians of both sides, for a note. */
export const both = <K extends string>(
  figure: K,
  ...sides: ReadonlyArray<ReadonlyArray<Readonly<Record<K, number>>>>
): string => sides.map((rounds) => number(median(rounds.map((round) => round[figure])))).join(" / ")
