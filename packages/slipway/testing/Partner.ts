/** A partner: it receives webhooks, now and then fails to take one, and reads the feed to its end when all is over. */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import type { Service } from "./ServiceCluster.ts"

export interface FeedEvent {
  readonly id: string
  readonly sequence: number
  readonly type: string
}

export interface Partner {
  /** Ids of events, in the order in which each was taken first. */
  readonly taken: ReadonlyArray<string>
  readonly repeats: () => number
  readonly refused: () => number
  /** Bodies of one event that differ, by its id. */
  readonly changed: ReadonlyArray<string>
  /** Ends the wait of the endpoint after attempts that failed. */
  readonly hurry: () => Promise<unknown>
  /** The whole feed, oldest first. */
  readonly feed: (
    url: string,
    apiKey: string
  ) => Promise<ReadonlyArray<FeedEvent>>
  readonly close: () => void
}

/**
 * Makes a claim that the user of the key has claimed, so that what it does is attributed to the grant, and an endpoint for its feed.
 * `answer`: what a webhook is answered with, when it completes; what it is refused with is not taken.
 */
export const make = async (
  service: Service,
  apiKey: string,
  recipient: string,
  answer: (eventId: string) => Promise<204 | 503>
): Promise<Partner> => {
  const taken: Array<string> = []
  const known = new Map<string, string>()
  const changed: Array<string> = []
  let [repeats, refused] = [0, 0]
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("error", () => {})
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", async () => {
      const body = Buffer.concat(chunks).toString()
      const { id } = JSON.parse(body) as { readonly id: string }
      const status = await answer(id)
      if (status === 503) refused++
      else {
        if (known.has(id)) repeats++
        else taken.push(id)
        if (known.get(id) !== undefined && known.get(id) !== body) changed.push(id)
        known.set(id, body)
      }
      response.writeHead(status).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address() as AddressInfo

  const [grant] = JSON.parse(await service.command("grants", "list", "--json")) as ReadonlyArray<
    { readonly name: string; readonly organizationId: string }
  >
  if (grant === undefined) throw new Error("the service has no grant")
  // First: an endpoint is told of what comes after it.
  const endpoint = JSON.parse(await service.command("webhooks", "add", `http://127.0.0.1:${port}/`, "--grant", grant.name, "--json")) as {
    readonly id: string
  }
  const claim = JSON.parse(
    await service.command(
      "partners",
      "claims",
      "create",
      "--grant",
      grant.name,
      "--lead",
      "soak",
      "--variant",
      "a",
      "--credits",
      "100",
      "--json"
    )
  ) as { readonly claimId: string }
  await service.command("partners", "claims", "claim", claim.claimId, "--recipient", recipient, "--organization", grant.organizationId)

  return {
    taken,
    repeats: () => repeats,
    refused: () => refused,
    changed,
    hurry: () => service.command("webhooks", "enable", endpoint.id, "--grant", grant.name),
    feed: async (url, apiKey) => {
      const all: Array<FeedEvent> = []
      for (let after = 0;;) {
        const reply = await fetch(`${url}/api/public/v1/events?after=${after}`, { headers: { authorization: `Bearer ${apiKey}` } })
        const { data, nextCursor } = await reply.json() as { readonly data: typeof all; readonly nextCursor: number }
        if (data.length === 0) return all
        all.push(...data)
        after = nextCursor
      }
    },
    close: () => {
      server.close()
      server.closeAllConnections()
    }
  }
}
