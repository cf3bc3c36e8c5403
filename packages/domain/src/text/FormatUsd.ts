/** Formats micro-USD in US dollars, as `Usd` of `models/schema/Budget` parses them, with at least two decimals. */
export const formatUsd = (microUsd: number): string => {
  const digits = String(microUsd).padStart(7, "0")
  const part = digits.slice(-6).replace(/0{1,4}$/u, "")
  return `${digits.slice(0, -6)}.${part}`
}
