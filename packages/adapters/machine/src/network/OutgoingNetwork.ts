/** Prepares this process for the operator's network, before it makes its first request. */
import { settings } from "./OutgoingRequest.ts"
import { InvalidProxy, variables } from "./ProxySettings.ts"

const prepareAuthorities = async (): Promise<string | null> => {
  const file = process.env["SLIPWAY_CA_FILE"] ?? ""
  if (file === "") return null
  const { install, UnusableAuthorities } = await import("./TrustedAuthorities.ts")
  try {
    install(file)
  } catch (error) {
    if (error instanceof UnusableAuthorities) return error.message
    throw error
  }
  // For npm, which we start with our environment.
  process.env["NODE_EXTRA_CA_CERTS"] ??= file
  return null
}

const prepareProxy = async (): Promise<string | null> => {
  try {
    const { http, https, noProxy } = settings()
    if (http === undefined && https === undefined) return null
    Object.assign(process.env, variables({ http, https, noProxy }))
  } catch (error) {
    if (error instanceof InvalidProxy) return error.message
    throw error
  }
  const { install } = await import("./ProxiedFetch.ts")
  install()
  return null
}

/**
 * From now on `fetch`, our other requests and the libraries of clouds use the proxy of the variables, and trust the operator's authorities.
 * Programs that we start with our environment find the variables of the proxy in both cases. Resolves with the problem of a variable, a
 * sentence for the operator; `null`: no problem.
 */
export const prepare = async (): Promise<string | null> => await prepareAuthorities() ?? await prepareProxy()
