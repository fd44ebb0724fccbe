// Signing in at the issuer of the test.

import { arrive } from './actions.mjs';

/** Opens a screen, and signs in as the choice of the issuer's page. */
export async function signedIn(stage, choice, hash = '#/') {
  const page = await stage.open(hash);
  await arrive(page, 'Sign in');
  await choose(page, choice);
  return page;
}

/** Leaves for the issuer, and takes one of its links. */
export async function choose(page, choice) {
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Issuer' }).waitFor();
  await page.getByRole('link', { name: choice, exact: true }).click();
}

/** How many tokens the issuer has given, by grant, and how many requests it has refused. */
export const counts = async (world) => (await fetch(`${world.issuer}/counts`)).json();
