/**
 * The sandboxes that each worker may have, and their order: the tables of docs/decisions/15 as a separate ledger, kept from the calls to
 * the leases. It shares nothing with `leaseOrder`.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Room } from "@slipway/domain/sandbox/rules/LeaseRules"
import type { Need, Told } from "./Told.ts"

/** A moment that lies in between; epoch milliseconds. Mostly it is known to the millisecond. */
interface Moment {
  readonly least: number
  readonly most: number
}

interface Claim {
  readonly id: SandboxId
  readonly told: Told
  /** Its need of a worker, and the time since when it has needed one. */
  need: Need
  since: Moment | null
  lease: { readonly machine: string; until: Moment } | null
  /** Its machine gave it up. */
  drained: boolean
}

/** How long a lease lasts (docs/architecture.md): three renewals. Milliseconds. */
const LEASE = 30_000

export class Claims {
  readonly #claims = new Map<SandboxId, Claim>()
  /** Calls without an answer yet; a process that died meanwhile never answers. */
  readonly #asked = new Set<object>()
  #version = 0

  #of(id: SandboxId): Claim | undefined {
    return this.#claims.get(id)
  }

  /** Takes note of what the log says by now. `since`: when the first write began that may have said so. */
  told(id: SandboxId, told: Told, since: number, now: number): void {
    const claim = this.#claims.get(id) ?? { id, told, need: null, since: null, lease: null, drained: false }
    this.#claims.set(id, claim)
    this.#version++
    const { need } = told
    claim.since = need === null ? null : claim.since ?? { least: since, most: now }
    claim.need = need
  }

  /** Somebody asks for something that changes leases, until what is returned is called. */
  begins(): () => void {
    const question = {}
    this.#asked.add(question)
    this.#version++
    return () => {
      this.#asked.delete(question)
      this.#version++
    }
  }

  taken(id: SandboxId, machine: string, { least, most }: Moment): void {
    const claim = this.#of(id)
    if (claim === undefined) return
    claim.lease = { machine, until: { least: least + LEASE, most: most + LEASE } }
    claim.drained = false
  }

  renewed(id: SandboxId, { least, most }: Moment): void {
    const lease = this.#of(id)?.lease
    if (lease != null) lease.until = { least: least + LEASE, most: most + LEASE }
  }

  ended(id: SandboxId, at: Moment, isGivenUp = false): void {
    const claim = this.#of(id)
    if (claim?.lease == null) return
    claim.lease.until = at
    claim.drained ||= isGivenUp
  }

  endedOn(machine: string, at: Moment): void {
    for (const { lease } of this.#claims.values()) {
      if (lease?.machine === machine && lease.until.most > at.least) lease.until = at
    }
  }

  drained(machine: string, isDrained: boolean, { least }: Moment): void {
    for (const claim of this.#claims.values()) {
      if (claim.lease?.machine === machine && claim.lease.until.most <= least) claim.drained = isDrained
    }
  }

  /**
   * Whom a worker is to be given now; `null`: it depends on what cannot be seen from here. To be asked right before the answer is
   * known, and once more after it: where the two are not equal, something happened in between. `lost`: the worker's limit, milliseconds.
   */
  expected(
    machine: string,
    room: Room,
    lost: number,
    now: number
  ): { readonly version: string; readonly ids: ReadonlyArray<SandboxId> } | null {
    if (this.#asked.size > 1) return null
    const held = new Map<string, number>()
    const free: Array<Claim> = []
    for (const claim of this.#claims.values()) {
      const { lease, need } = claim
      if (need === null) continue
      if (lease !== null && lease.until.most > now) {
        if (lease.until.least <= now) return null
        const { grantId } = claim.told.creation
        if (need !== "errand") held.set(grantId, (held.get(grantId) ?? 0) + 1)
        continue
      }
      const may = mayHave(claim, machine, lost, now)
      if (may === null) return null
      if (may) free.push(claim)
    }
    const line = inLine(free)
    if (line === null) return null
    const errands = line.filter(({ need }) => need === "errand").slice(0, room.errands)
    const boots = new Set(byTurns(line.filter(({ need }) => need === "boot"), held, room.boots))
    const slots = byTurns(line.filter((claim) => claim.need === "turn" || boots.has(claim)), held, room.slots)
    return { version: `${this.#version} ${lost}`, ids: [...errands, ...slots].map(({ id }) => id) }
  }
}

/** `null`: within the moment in which that changes. */
const mayHave = ({ drained, lease, since, told }: Claim, machine: string, lost: number, now: number): boolean | null => {
  if (lease === null || lease.machine === machine) return true
  if (drained && !told.isUnsaved || told.isOver) return true
  const { least, most } = lease.until
  const from = Math.max(least, since?.least ?? 0) + lost
  const to = Math.max(most, since?.most ?? 0) + lost
  return now >= to ? true : now < from ? false : null
}

/** The longest wait first; `null`: the order cannot be told from here. */
const inLine = (claims: ReadonlyArray<Claim>): ReadonlyArray<Claim> | null => {
  const line = claims.toSorted((a, b) =>
    (a.since?.least ?? 0) - (b.since?.least ?? 0) ||
    a.told.creation.createdAt.epochMilliseconds - b.told.creation.createdAt.epochMilliseconds ||
    (a.id < b.id ? -1 : 1)
  )
  const isKnown = line.every(({ since }, i) => {
    const next = line[i + 1]?.since ?? null
    if (since === null || next === null || since.most < next.least) return true
    return since.least === since.most && next.least === next.most
  })
  return isKnown ? line : null
}

/** Grants take turns: the next place goes to the grant with the fewest so far, and of two such grants to the longer wait. */
const byTurns = (line: ReadonlyArray<Claim>, held: ReadonlyMap<string, number>, places: number): ReadonlyArray<Claim> => {
  const has = new Map(held)
  const left = [...line]
  const given: Array<Claim> = []
  const of = ({ told }: Claim) => has.get(told.creation.grantId) ?? 0
  while (given.length < places && left.length > 0) {
    const next = left.reduce((best, claim) => of(claim) < of(best) ? claim : best)
    left.splice(left.indexOf(next), 1)
    given.push(next)
    has.set(next.told.creation.grantId, of(next) + 1)
  }
  return given
}
