/** Memory and descriptors of processes that live through the whole soak. */
import { readdirSync, readFileSync } from "node:fs"
import type { Process } from "../../packages/slipway/testing/ServiceCluster.ts"

interface Sample {
  readonly minute: number
  readonly mebibytes: number
  readonly descriptors: number
}

export interface Slope {
  readonly name: string
  /** Medians of the second and of the last third: the first one fills caches. */
  readonly mebibytes: readonly [number, number]
  readonly descriptors: readonly [number, number]
  /** By least squares over the last two thirds, MiB a minute. */
  readonly perMinute: number
}

const median = (values: ReadonlyArray<number>) => [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN

const slopeOf = (samples: ReadonlyArray<Sample>) => {
  const n = samples.length
  const mean = (of: (sample: Sample) => number) => samples.reduce((sum, sample) => sum + of(sample), 0) / n
  const [x, y] = [mean(({ minute }) => minute), mean(({ mebibytes }) => mebibytes)]
  const over = samples.reduce((sum, { mebibytes, minute }) => sum + (minute - x) * (mebibytes - y), 0)
  return over / samples.reduce((sum, { minute }) => sum + (minute - x) ** 2, 0)
}

export const make = (processes: ReadonlyArray<Process>) => {
  const samples = new Map(processes.map((one): [Process, Array<Sample>] => [one, []]))
  const began = Date.now()
  const look = () => {
    for (const [one, taken] of samples) {
      try {
        const status = readFileSync(`/proc/${one.pid()}/status`, "utf8")
        taken.push({
          minute: (Date.now() - began) / 60_000,
          mebibytes: Number(/VmRSS:\s+(\d+)/u.exec(status)?.[1]) / 1024,
          descriptors: readdirSync(`/proc/${one.pid()}/fd`).length
        })
      } catch {
        // It is gone; the process that ended it reports that.
      }
    }
  }
  const timer = setInterval(look, 1_000)
  return {
    stop: (): ReadonlyArray<Slope> => {
      clearInterval(timer)
      return Array.from(samples, ([{ name }, taken]) => {
        const third = Math.floor(taken.length / 3)
        const [second, last] = [taken.slice(third, -third), taken.slice(-third)]
        const of = (pick: (sample: Sample) => number): readonly [number, number] => [median(second.map(pick)), median(last.map(pick))]
        return { name, mebibytes: of((s) => s.mebibytes), descriptors: of((s) => s.descriptors), perMinute: slopeOf(taken.slice(third)) }
      })
    }
  }
}
