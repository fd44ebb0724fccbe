// Opens the screens of the list, completely loaded.

import { until } from './actions.mjs';

/** The list has instances by name; what follows needs a click is done here. */
export async function openScreen(page, world, { name, hash }) {
  await page.goto(`${world.api}/${hash === '#/dead-letters/mail-1' ? '#/dead-letters?instance=mail-1' : hash}`);
  await page.reload();
  if (name === 'dead-letter') await page.getByRole('link', { name: 'Activity given up' }).click();
  if (name === 'batch') await page.getByRole('link', { name: /many instances/ }).first().click();
  await page.getByRole('heading', { level: 1 }).waitFor();
  await until(`${name} has loaded`, async () => {
    const text = await page.locator('main').innerText();
    return !/Loading/.test(text) && (await page.locator('[aria-busy=true]').count()) === 0;
  });
  if (name === 'timeline' || name === 'running') await page.getByRole('treeitem').first().waitFor();
  if (name === 'raise') {
    await page.getByRole('button', { name: /^Send approval/ }).click();
    await page.getByRole('dialog').waitFor();
  }
  if (name === 'start') await page.getByLabel('Input').fill('{\n  "id": "order-1048",\n  "customer": "ada",\n  "total_cents": 4200\n}');
}

/** Both themes, as a system prefers them. */
export const THEMES = ['light', 'dark'];
