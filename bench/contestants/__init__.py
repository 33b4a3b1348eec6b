"""Who is measured: offbook, its peers and the floors, behind two seams."""
