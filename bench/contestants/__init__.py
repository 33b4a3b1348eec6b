"""Who is measured: understudy, its peers and the floors, behind two seams."""
