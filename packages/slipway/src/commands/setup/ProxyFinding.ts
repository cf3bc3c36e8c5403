/** The finding of `slipway doctor` about the operator's proxy. */
import * as OutgoingRequest from "@slipway/machine/network/OutgoingRequest"
import * as ProxySettings from "@slipway/machine/network/ProxySettings"
import { connectThrough, opened, ProxyFailed, toProxy } from "@slipway/machine/network/ProxyTunnel"
import { Effect } from "effect"
import type { Finding } from "./Doctor.ts"

/** A proxy that needs more time hurts every request. */
const ANSWER_MILLIS = 10_000

/** Whether it connects to a destination that the service surely needs; without one, whether it can be reached. */
const examined = async (proxy: URL, destination: URL | null): Promise<string | null> => {
  try {
    const socket = destination === null || destination.protocol !== "https:"
      ? await opened(proxy, toProxy(proxy), ANSWER_MILLIS)
      : await connectThrough(proxy, { host: destination.hostname, port: Number(destination.port || 443) }, { millis: ANSWER_MILLIS })
    socket.destroy()
    return null
  } catch (error) {
    if (error instanceof ProxyFailed) return error.message
    throw error
  }
}

/** Empty without a proxy. `destinations`: addresses that the service requests, the most important one first. */
export const find = (destinations: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<Finding>> =>
  Effect.suspend(() => {
    const known = destinations.filter((url) => URL.canParse(url)).map((url) => new URL(url))
    return Effect.forEach(OutgoingRequest.proxies(), (proxy) => {
      const destination = known.find((url) => OutgoingRequest.proxyOf(url)?.href === proxy.href) ?? null
      const name = `${ProxySettings.shown(proxy)}${proxy.username === "" ? "" : ", with a user"}`
      return Effect.map(Effect.promise(() => examined(proxy, destination)), (problem): Finding => ({
        what: "proxy",
        state: problem === null ? "ok" : "missing",
        detail: problem === null
          ? `${name}${destination?.protocol === "https:" ? `, connects to ${destination.host}` : ", can be reached"}`
          : `${problem} Check HTTPS_PROXY, HTTP_PROXY and NO_PROXY (docs/operating/networks.md)`
      }))
    }, { concurrency: "unbounded" })
  })
