import csv, sys

revenue = {}
with open("sales.csv", newline="") as f:
    for row in csv.DictReader(f):
        revenue[row["month"]] = revenue.get(row["month"], 0) + int(row["units"]) * float(row["price"])

total, top = sum(revenue.values()), max(revenue.values())
for month, value in revenue.items():
    print(f"{month}  {'#' * round(value / top * 40):40}  {value:8.2f}")
print(f"total {total:.2f}, best month {max(revenue, key=revenue.get)}")

with open("chart.svg", "w") as f:
    f.write('<svg xmlns="http://www.w3.org/2000/svg" width="360" height="220" font-family="sans-serif" font-size="12">\n')
    for i, (month, value) in enumerate(revenue.items()):
        h = value / top * 170
        f.write(f'<rect x="{20 + i * 55}" y="{190 - h:.0f}" width="40" height="{h:.0f}" fill="#2a7f9e"/>')
        f.write(f'<text x="{40 + i * 55}" y="206" text-anchor="middle">{month}</text>\n')
    f.write("</svg>\n")
