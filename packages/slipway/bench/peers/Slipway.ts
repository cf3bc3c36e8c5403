/** Ours: the whole service, without isolation, since no peer has any. */
import type * as Checkout from "../fleet/Checkout.ts"
import { type Peer, PROMPT, type Session } from "./Peer.ts"
import * as Wire from "./Wire.ts"

const WORD = `"text":"hello"`

export const start = async (
  fleet: Checkout.Fleet,
  machine: string,
  settings: Readonly<Record<string, string>>,
  model: string
): Promise<Peer> => {
  let service = await fleet.start(machine, settings)
  const address = (id: string) => `${service.url}/api/public/v1/sandboxes/${id}`
  const headers = { authorization: `Bearer ${service.key}` }
  const seqOf = async (id: string) => {
    let after = "0"
    for (;;) {
      const { data, nextCursor }: { readonly data: ReadonlyArray<unknown>; readonly nextCursor: string } = JSON.parse(
        await Wire.ask("GET", `${address(id)}/events?after=${after}`, headers)
      )
      after = nextCursor
      if (data.length === 0) return after
    }
  }
  const sessionOf = (id: string, stream: Wire.Stream): Session => ({
    id,
    prompt: async () => {
      stream.skip()
      const began = performance.now()
      const sent = Wire.ask("POST", `${address(id)}/messages`, headers, { prompt: PROMPT })
      const took = (await stream.next(WORD)) - began
      await sent
      await stream.next(`"type":"turn.completed"`)
      return took
    },
    // The next turn would wait for the checkpoint that this one's end asks for.
    rest: async () => void await stream.next(`"type":"sandbox.checkpoint"`),
    read: async () => void await Wire.ask("GET", address(id), headers),
    replay: async () => {
      const last = await seqOf(id)
      const began = performance.now()
      const all = await Wire.stream(`${address(id)}/events/stream?since=0`, headers)
      const took = (await all.next(`id: ${last}\n`)) - began
      all.close()
      return { took, bytes: all.bytes() }
    },
    end: async () => {
      stream.close()
      await service.terminate(id)
    }
  })
  return {
    name: "slipway",
    create: async () => {
      const began = performance.now()
      const { id }: { readonly id: string } = JSON.parse(
        await Wire.ask("POST", `${service.url}/api/public/v1/sandboxes`, headers, {
          repos: [{ fullName: "acme/shop" }],
          prompt: PROMPT,
          model
        })
      )
      const answered = performance.now() - began
      const stream = await Wire.stream(`${address(id)}/events/stream?since=0`, headers)
      const firstWord = (await stream.next(WORD)) - began
      await stream.next(`"type":"turn.completed"`)
      return { answered, firstWord, session: sessionOf(id, stream) }
    },
    afterKill: async (id) => {
      const before = await seqOf(id)
      await service.stop("SIGKILL")
      service = await fleet.start(machine, settings)
      await Wire.ask("GET", address(id), headers)
      return Number(await seqOf(id)) >= Number(before) ? "session and all events" : "the session, not all events"
    },
    stop: () => service.stop("SIGTERM")
  }
}
